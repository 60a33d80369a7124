// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// What `/status.json` and `siwatch status --json` say, as far as tests read it.
struct StatusDocument: Decodable {
    var schema: Int
    var health: String
    var findings: [Finding]
    var daemon: Daemon?

    struct Finding: Decodable {
        var severity: String
        var sentence: String
        var runbook: String?
    }

    struct Daemon: Decodable {
        var processId: Int32
        var answers: [Answer]
        var warnings: [Warning]
        var keyTrials: [Trial]
    }

    struct Answer: Decodable {
        var lane: String
        var kind: String
    }

    struct Warning: Decodable { var event: String }

    struct Trial: Decodable {
        var clientId: String
        var keyId: String
        var verdict: String
        var words: String?
    }

    init(_ text: String) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(text.utf8))
    }

    var trials: [Trial] { daemon?.keyTrials ?? [] }
}

extension OperationsPages {
    /// Waits until the document meets a condition.
    func document(until isMet: (StatusDocument) -> Bool) async throws -> StatusDocument {
        try await StatusDocument(get("status.json", within: .seconds(60)) { (try? StatusDocument($0)).map(isMet) ?? false })
    }
}
