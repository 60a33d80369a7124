// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore

/// Apple's last answer to whether the key, the team and the id of a client belong together.
struct KeyTrial: Encodable, Equatable {
    var app: String
    var clientID: String
    var teamID: String
    /// Of the key that signed.
    var keyID: String
    var verdict: Verdict
    /// Apple's words, or why there was no answer; nil if Apple has accepted the client.
    var words: String?
    /// Since when the verdict on this key is the same.
    var since: Timestamp
    var askedAt: Timestamp

    enum Verdict: String, Encodable {
        case accepted, refused
        /// Apple gave no usable answer, so nothing is known.
        case unanswered
        var words: String { self == .refused ? "not accepted" : rawValue }
    }

    /// For an operator, if Apple refuses the client.
    var sentence: String {
        let refused = "\(app.printable): Apple does not accept \(clientID.printable) with the key \(keyID) of the team \(teamID)"
        return "\(refused) since \(since.text) (\((words ?? "").printable))"
    }

    static let remedy = "sudo -u siwatch siwatch doctor --online says what to compare at Apple"
}

extension EndpointAnswer<ClientNews> {
    var verdict: (verdict: KeyTrial.Verdict, words: String?) {
        switch self {
        case .news(.accepted): (.accepted, nil)
        case .misconfigured(let words): (.refused, words)
        case .throttled: (.unanswered, "429")
        case .unavailable(let reason, _, _): (.unanswered, reason)
        }
    }
}
