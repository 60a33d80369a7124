// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore

extension UserHistory {
    /// All that happened and all that waits, oldest first.
    func lines(_ circumstances: Circumstances) -> [String] {
        let entries =
            grants.map(\.entry) + waiting.map { $0.entry(circumstances) } + notifications.map(\.entry) + revocations.map(\.entry)
            + changes.map(\.entry)
            + credentials.flatMap(\.answers)
        return entries.sorted { ($0.at, $0.rank) < ($1.at, $1.rank) }.map { "\($0.at.text)  \($0.kind.padded(to: 12))  \($0.text)" }
    }
}

/// One line of a history.
private struct Entry {
    /// When it became true at Apple.
    var at: Timestamp
    /// Orders entries of the same time, so that a cause comes before its effect.
    var rank: Int
    var kind: String
    var text: String
}

extension UserHistory.LoggedGrant {
    fileprivate var entry: Entry {
        let more = detail.map { ": \($0.printable)" } ?? ""
        let words = reason.flatMap(GrantRejection.init).map { ", \($0.words)" } ?? ""
        let why = reason.map { " (\($0.printable)\(words)\(more))" } ?? ""
        let text = "\(clientID.printable): \(outcome.printable)\(why), settled \(settledAt.text)"
        return Entry(at: grantedAt, rank: 0, kind: "sign-in", text: text)
    }
}

extension UserHistory.Waiting {
    fileprivate func entry(_ circumstances: Circumstances) -> Entry {
        let isSignIn = queue == "grant"
        let place = clientID.printable + (isSignIn ? "" : ", request \(id)")
        let text = "\(place): \(wait(circumstances).words)"
        return Entry(at: at, rank: 0, kind: isSignIn ? "sign-in" : "revocation", text: text)
    }
}

extension UserHistory.LoggedNotification {
    fileprivate var entry: Entry {
        var text = "\(type.printable), jti \(jti.printable), \(clientID.printable): \(outcome.printable), "
        text += "received \(receivedAt.text), settled \(settledAt.text)"
        if let payload { text += "\n    \(payload.printable)" }
        return Entry(at: occurredAt, rank: 1, kind: "notification", text: text)
    }
}

extension RevocationReceipt {
    fileprivate var entry: Entry {
        let why = reason.map { " (\($0.printable))" } ?? ""
        let text = "\(clientID.printable): \(outcome.printable)\(why), \(words), settled \(settledAt.text)"
        return Entry(at: requestedAt, rank: 1, kind: "revocation", text: ([text] + proofLines).joined(separator: "\n    "))
    }
}

extension PublishedChange {
    fileprivate var entry: Entry {
        let what: String
        if let toState {
            what = "\(fromState?.printable ?? "nothing") → \(toState.printable) (\(reason?.printable ?? ""))"
        } else {
            what = "e-mail \(email?.printable ?? "none")" + (emailForwarding.map { ", forwarding \($0.printable)" } ?? "")
        }
        let source = source.printable + (notificationJTI.map { " \($0.printable)" } ?? "")
        let text = "\(clientID.printable): \(what), by \(source), recorded \(recordedAt.text)"
        return Entry(at: occurredAt, rank: 3, kind: "change", text: text)
    }
}

extension UserHistory.HeldCredential {
    /// What Apple last said of the token.
    fileprivate var answers: [Entry] {
        let answers = [(verifiedAt, "the token is good"), (rejectedAt, "the token is rejected (invalid_grant)")]
        return answers.compactMap { at, what in
            at.map { Entry(at: $0, rank: 2, kind: "answer", text: "\(clientID.printable): \(what)") }
        }
    }
}
