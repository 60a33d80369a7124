// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
package import CredentialCore
import NIOConcurrencyHelpers

/// Apple's signing keys: fetched, stored, and never forgotten.
///
/// A retired key stays usable, because notifications signed with it may still wait. A failed fetch keeps the last good keys. Call
/// `refreshIfDue` every second or so, because an unknown key brings the next fetch forward.
package final class SigningKeys: Sendable {
    private let url: String
    private let transport: any AppleTransport
    private let store: any SigningKeyStore
    private let clock: WallClock
    private let state = NIOLockedValueBox(State())

    fileprivate struct State {
        var keys: [String: (key: SigningKey, firstSeenAt: Timestamp)] = [:]
        var schedule = KeySchedule()
    }

    package init(url: String, transport: any AppleTransport, store: any SigningKeyStore, clock: WallClock) {
        self.url = url
        self.transport = transport
        self.store = store
        self.clock = clock
    }

    /// Takes the keys of an earlier process from the store, so that a restart during an outage loses none.
    package func load() async throws {
        let records = try await store.signingKeys()
        let known = records.compactMap { record in
            (try? JSON(Array(record.jwk.utf8))).flatMap(SigningKey.init).map { (key: $0, record: record) }
        }
        state.withLockedValue { state in
            for (key, record) in known where state.keys[key.id] == nil {
                state.keys[key.id] = (key, record.firstSeenAt)
            }
            if let last = known.map(\.record.lastSeenAt).max() { state.schedule.resume(fetchedAt: last) }
        }
    }
}

// MARK: Asking for a key

extension SigningKeys {
    /// The key with exactly this name; nil if it is not known.
    func key(_ id: String) -> SigningKey? {
        state.withLockedValue { $0.keys[id]?.key }
    }

    /// The error for a token with an unknown key: not yet known, or given up.
    func absence(of id: String, receivedAt: Timestamp, skew: Duration) -> VerificationError {
        let now = clock.now
        return switch state.withLockedValue({ $0.schedule.absence(receivedAt: receivedAt, skew: skew, now: now) }) {
        case .waits(let until): .keyNotYetKnown(retryAt: until)
        case .givenUp: .rejected(.unknownKey, detail: id)
        }
    }

    /// How many keys are known, retired ones included.
    package var count: Int {
        state.withLockedValue { $0.keys.count }
    }

    /// When the last successful fetch began.
    package var lastRefresh: Timestamp? {
        state.withLockedValue { $0.schedule.successes.last }
    }
}

// MARK: Fetching

package enum KeyRefresh: Sendable, Equatable {
    case notDue
    /// `unsaved` says why the store did not keep the keys; nil if it did.
    case fetched(unsaved: String?)
    /// Nothing has changed. siwatch fetches again in a minute.
    case failed(String)
}

extension SigningKeys {
    /// Fetches the keys if a fetch is due and none is under way.
    ///
    /// A fetch is due every hour, a minute after a failure, and once a minute while a token waits for its key.
    ///
    /// - Parameter tellsTime: whether the time of Apple's clock is wanted, too. Then a fetch is due once a minute.
    package func refreshIfDue(tellsTime: Bool = false) async -> KeyRefresh {
        let start = clock.now
        guard state.withLockedValue({ $0.schedule.begin(at: start, isUrgent: tellsTime) }) else { return .notDue }
        do {
            let set = try await fetch()
            let records = state.withLockedValue { $0.take(set, fetchedAt: start) }
            return .fetched(unsaved: await save(records, fetchedAt: start))
        } catch {
            state.withLockedValue { $0.schedule.end(succeeded: false) }
            return .failed("\(error)")
        }
    }

    private func fetch() async throws -> SigningKeySet {
        let response = try await transport.send(AppleRequest(.keys, url: url))
        guard response.status == 200 else { throw UnusableKeySet("status \(response.status)") }
        guard let body = response.body else { throw UnusableKeySet("larger than 64 KiB") }
        return try SigningKeySet(body)
    }

    /// Stores the keys only once they are in use here, because that wakes the notifications that waited for them.
    private func save(_ records: [SigningKeyRecord], fetchedAt: Timestamp) async -> String? {
        do {
            try await store.remember(records, fetchedAt: fetchedAt)
            return nil
        } catch {
            return "\(error)"
        }
    }
}

extension SigningKeys.State {
    /// Merges a fetched set. Apple's latest key for an id replaces the earlier one, and keys that are not in the set stay.
    mutating func take(_ set: SigningKeySet, fetchedAt: Timestamp) -> [SigningKeyRecord] {
        schedule.end(succeeded: true)
        return set.keys.map { key in
            let firstSeenAt = keys[key.id]?.firstSeenAt ?? fetchedAt
            keys[key.id] = (key, firstSeenAt)
            return SigningKeyRecord(keyID: key.id, jwk: key.jwk, firstSeenAt: firstSeenAt, lastSeenAt: fetchedAt)
        }
    }
}
