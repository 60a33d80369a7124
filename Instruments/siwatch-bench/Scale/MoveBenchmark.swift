// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation

/// How long `siwatch move` takes from a file to PostgreSQL, its proof included.
struct MoveBenchmark: Sendable {
    let size: Int

    func run() async throws -> Section {
        say("The move")
        return try await Workplace.use { file in
            try await file.migrate()
            let table = CredentialTable(size: size)
            say("  \(table.name) credentials")
            try await table.fill(file)
            return try await BenchServer.withDatabase { schema in
                say("  siwatch moves them")
                let start = ContinuousClock.now
                try await file.folder.complete("move", "--to", schema.url, "--schema", schema.name)
                let time = ContinuousClock.now - start
                let moved = try await arrived(schema)
                guard moved == size else { throw HarnessError("\(moved) of \(size) credentials have arrived") }
                return Section(
                    "siwatch move, from SQLite to PostgreSQL, \(table.name) credentials",
                    [
                        .init(label: "copied, proved on both sides and committed", figure: "\(time.inSeconds.rounded(to: 1)) s"),
                        .init(label: "credentials", figure: (Double(size) / time.inSeconds).perSecond),
                    ],
                    arguments: "--only postgres-move --moved \(size)"
                )
            }
        }
    }

    private func arrived(_ schema: ServerSchema) async throws -> Int {
        let backend = try Backend(schema)
        defer { try? backend.close() }
        return try await backend.int("SELECT COUNT(*) FROM credential_state")
    }
}
