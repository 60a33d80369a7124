// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Counts since the start or the last reset.
package struct Counters: Sendable, Codable, Equatable {
    /// Requests by endpoint and outcome: a status, or `cut`, `reset`, `hang` or `failed`.
    package internal(set) var requests: [Endpoint: [String: Int]] = [:]
    /// Requests of `client_credentials` by their outcome. ``requests`` does not have them.
    package internal(set) var clientCredentials: [String: Int] = [:]
    /// Genuine 400s by their `error`.
    package internal(set) var errors: [String: Int] = [:]
    /// Flaws of client secrets, which Apple never tells. Requests to `/auth/revoke` count too, although their answer is 200.
    package internal(set) var clientSecretFlaws: [ClientSecretFlaw: Int] = [:]
    package internal(set) var codes = CodeCounters()
    package internal(set) var revocations = RevocationCounters()
    package internal(set) var traffic = Traffic()
    package internal(set) var faults = 0
    /// Requests without the `User-Agent` that Apple is said to require.
    package internal(set) var anonymousRequests = 0
    package internal(set) var inFlight = 0
    package internal(set) var peakInFlight = 0
    package internal(set) var notifications = NotificationCounters()
    /// ``AppleWorld/shortestRefreshGap`` in milliseconds, in the answer of ``ReadCounters`` only.
    package internal(set) var shortestRefreshGap: Int64?

    package init() {}

    enum CodingKeys: String, CodingKey {
        case requests, errors, codes, revocations, traffic, faults, notifications
        case clientCredentials = "client_credentials"
        case clientSecretFlaws = "client_secret_flaws"
        case anonymousRequests = "anonymous_requests"
        case inFlight = "in_flight"
        case peakInFlight = "peak_in_flight"
        case shortestRefreshGap = "shortest_refresh_gap_ms"
    }
}

/// Outcomes of exchanges of codes that reached Apple. A scripted answer does not count, a lost one does.
package struct CodeCounters: Sendable, Codable, Equatable {
    package internal(set) var redeemed = 0
    package internal(set) var refused: [CodeRefusal: Int] = [:]
}

/// Why Apple did not redeem a code. Apple's own texts change from year to year, and several reasons share one text.
package enum CodeRefusal: String, Sendable, CaseIterable, Codable, CodingKeyRepresentable {
    case invalidRequest = "invalid_request"
    case invalidClient = "invalid_client"
    /// Unknown, no code, older than five minutes, or of a sign-in that has ended.
    case dead
    case used
    case clientMismatch = "client_mismatch"
    case redirectMismatch = "redirect_mismatch"
}

/// Outcomes of requests to end a consent that reached Apple in readable form.
package struct RevocationCounters: Sendable, Codable, Equatable {
    package internal(set) var asked = 0
    /// Requests that ended a consent. The others got the same 200.
    package internal(set) var effective = 0
}

package struct NotificationCounters: Sendable, Codable, Equatable {
    package internal(set) var emitted = 0
    /// Posted and answered with 200.
    package internal(set) var delivered = 0
    package internal(set) var undelivered = 0
}

extension Counters {
    mutating func begin() {
        inFlight += 1
        peakInFlight = max(peakInFlight, inFlight)
    }

    mutating func end(_ arrival: Arrival, _ outcome: ExchangeOutcome) {
        inFlight -= 1
        if arrival.subject.isClient {
            clientCredentials[outcome.label, default: 0] += 1
        } else {
            requests[arrival.endpoint, default: [:]][outcome.label, default: 0] += 1
        }
    }

    mutating func count(_ error: TokenError) {
        errors[error.code, default: 0] += 1
        if case .invalidClient(let flaw) = error { count(flaw) }
    }

    mutating func countRefusedCode(_ error: TokenError) {
        let refusal: CodeRefusal? =
            switch error {
            case .invalidRequest: .invalidRequest
            case .invalidClient: .invalidClient
            case .deadCode: .dead
            case .usedCode: .used
            case .clientMismatch: .clientMismatch
            case .redirectMismatch: .redirectMismatch
            case .deadToken, .unsupportedGrantType, .invalidScope: nil
            }
        if let refusal { codes.refused[refusal, default: 0] += 1 }
    }

    mutating func count(_ flaw: ClientSecretFlaw) { clientSecretFlaws[flaw, default: 0] += 1 }

    /// Resets all counters except the number of requests in flight.
    mutating func reset() {
        let inFlight = inFlight
        self = Counters()
        self.inFlight = inFlight
        self.peakInFlight = inFlight
    }
}
