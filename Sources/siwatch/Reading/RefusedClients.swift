// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension CredentialReader {
    /// The configured clients that Apple refuses. siwatch no longer asks for other clients.
    func refusedClients(of configuration: Configuration, at now: Timestamp) async throws -> [RefusedClient] {
        let configured = configuration.clientIDs
        return try await refusedClients(at: now, upTo: RefusedClient.mostCounted).filter { configured.contains($0.clientID) }
    }
}

extension RefusedClient {
    /// The limit for each kind of work.
    static let mostCounted = 10_000

    /// What is wrong, what work waits for the client, and what to do.
    var sentence: String {
        let kinds = [(codes, "codes"), (checks, "due checks"), (revocations, "tokens to revoke")]
        let waiting = kinds.filter { $0.0 > 0 }.map { count, what in "\(count)\(count < Self.mostCounted ? "" : " or more") \(what)" }
        let waits = waiting.isEmpty ? "nothing of it waits" : "\(waiting.joined(separator: ", ")) wait"
        return """
            \(app.printable): Apple refuses the client \(clientID.printable) since \(refusal.since.text) (\(refusal.word.printable)); \
            \(waits). Put the key, its id, team_id or the client id right and run siwatch check: see SiwatchAppPaused in docs/alerts.md
            """
    }
}

extension ClientRefusal {
    /// For people, in a place that already names the client.
    var words: String { "Apple refuses the client since \(since.text) (\(word.printable))" }
}
