// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Apple's answers in place of the truth, for a while.
enum Weather: Hashable {
    case outage
    case throttling(retryAfter: Duration?)
    /// Our key is wrong, and Apple says so.
    case invalidClient
    /// Our key is wrong, and Apple looks at the grant first: `invalid_grant` to every question.
    case wrongKey
    /// One client of the app is misconfigured: Apple issued its tokens to another one.
    case wrongClient(String)
    /// Apple rejects good tokens, in this share of the requests.
    case massRejection(Double)
    /// Apple rejects all tokens of one client, and exchanges its codes.
    case refreshesRejected(String)
    /// Answers that blame neither the token nor the client.
    case ambiguous
    /// Answers that come late or too late.
    case slow
    /// Answers without an id_token.
    case namesNobody

    /// Whether our configuration causes and ends it.
    var isOurFault: Bool {
        switch self {
        case .invalidClient, .wrongKey, .wrongClient: true
        case .outage, .throttling, .massRejection, .refreshesRejected, .ambiguous, .slow, .namesNobody: false
        }
    }

    /// Nil for the truth.
    func answer(to credential: CredentialID, using generator: inout SeededGenerator) -> EndpointAnswer<RefreshNews>? {
        switch self {
        case .outage: .unavailable("503", retryAfter: Bool.random(using: &generator) ? .seconds(120) : nil)
        case .throttling(let retryAfter): .throttled(retryAfter: retryAfter)
        case .invalidClient: .misconfigured("invalid_client")
        case .wrongKey: .rejected
        case .wrongClient(let clientID), .refreshesRejected(let clientID): credential.clientID == clientID ? .rejected : nil
        case .massRejection(let share): Double.random(in: 0..<1, using: &generator) < share ? .rejected : nil
        case .ambiguous: .ambiguous("invalid_request")
        case .slow, .namesNobody: nil
        }
    }
}
