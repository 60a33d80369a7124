// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto
import Hummingbird
import NIOConcurrencyHelpers

package enum Right: String, Sendable, CaseIterable {
    /// Hand over notifications that Apple has posted elsewhere.
    case notify
    case signIn = "sign_in"
    case delete
    case read
}

package struct Client: Sendable {
    package var name: String
    package var rights: Set<Right>
    /// One, or two while it changes.
    private var digests: [SHA256Digest]

    package init(name: String, tokens: [Secret], rights: Set<Right>) {
        self.name = name
        self.rights = rights
        digests = tokens.map { SHA256.hash(data: Array($0.reveal.utf8)) }
    }

    /// Compares digests, whose comparison takes the same time for each token.
    func holds(_ digest: SHA256Digest) -> Bool { digests.reduce(false) { $1 == digest || $0 } }
}

final class Access: Sendable {
    private let state: NIOLockedValueBox<State>

    private struct State {
        var clients: [Client]
        var rate: Double
        var buckets: [String: RateLimit] = [:]
    }

    init(_ clients: [Client], requestsPerSecond rate: Int) {
        state = NIOLockedValueBox(State(clients: clients, rate: Double(rate)))
    }

    func use(_ clients: [Client], requestsPerSecond rate: Int) {
        state.withLockedValue { ($0.clients, $0.rate) = (clients, Double(rate)) }
    }

    /// - Returns: the client that the token of a request belongs to.
    func client(of request: Request) throws(Problem) -> Client {
        guard let header = request.headers[.authorization] else {
            throw Problem(.unauthorized, "the header Authorization: Bearer TOKEN is missing")
        }
        guard header.count > 7, header.prefix(7).lowercased() == "bearer " else {
            throw Problem(.unauthorized, "the header Authorization does not begin with Bearer")
        }
        let digest = SHA256.hash(data: Array(header.dropFirst(7).utf8))
        guard let client = state.withLockedValue({ $0.clients.first { $0.holds(digest) } }) else {
            throw Problem(.unauthorized, "the token stands in no token file of an [[http.client]]: give the backend a new copy")
        }
        return client
    }

    func admit(_ client: Client, toDo rights: [Right]) throws(Problem) {
        guard rights.contains(where: client.rights.contains) else {
            throw Problem(.forbidden, "the client lacks the right \(rights.map(\.rawValue).joined(separator: " or "))")
        }
        try admit(client.name)
    }

    func admit(_ name: String) throws(Problem) {
        let isAdmitted = state.withLockedValue { $0.buckets[name, default: RateLimit()].take(at: .now, rate: $0.rate) }
        guard isAdmitted else { throw Problem(.tooManyRequests) }
    }
}

/// A token bucket that holds the requests of one second.
private struct RateLimit {
    private var left: Double?
    private var filledAt = ContinuousClock.now

    mutating func take(at now: ContinuousClock.Instant, rate: Double) -> Bool {
        let available = min(rate, (left ?? rate) + (now - filledAt).inSeconds * rate)
        filledAt = now
        left = available >= 1 ? available - 1 : available
        return available >= 1
    }
}
