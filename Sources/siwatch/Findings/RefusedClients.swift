// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension RefusedClient {
    /// What to do, as the end of a sentence.
    static let remedy = """
        put the key or its id right, then sudo -u siwatch siwatch doctor --before-start, then sudo systemctl reload siwatch; team_id or a client id needs a restart
        """

    /// Whether nobody waits for the client. It may be right by now: only the next sign-in or check tells.
    var isIdle: Bool { codes + checks + revocations == 0 }

    /// What is wrong, and what work waits for the client.
    var sentence: String {
        let kinds = [(codes, "code"), (checks, "due check"), (revocations, "revocation")]
        let waiting = kinds.filter { $0.0 > 0 }.map { count, what in
            count < Overview.mostWaiting ? count.counted(what) : "\(count) or more \(what)s"
        }
        let refused =
            "\(app.printable): Apple refuses the client \(clientID.printable) since \(refusal.since.text) (\(refusal.word.printable))"
        if isIdle { return "\(refused), and was last asked at \(refusal.at.text); nothing waits, and the next sign-in or check asks again" }
        return "\(refused); waiting: \(waiting.joined(separator: ", "))"
    }
}

extension ClientRefusal {
    /// For people, in a place that already names the client.
    var words: String { "Apple refuses the client since \(since.text) (\(word.printable))" }
}
