// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// Somebody who can write into the database writes a signing key there, and signs events with it.
@Suite(.timeLimit(.minutes(10))) struct PlantedKeyTests {
    /// The row is one that a siwatch wrote, for another database and another Apple.
    @Test(arguments: SiteDatabase.allCases) func anEventSignedWithAPlantedKeyDeletesNobody(on database: SiteDatabase) async throws {
        try await Site.with(on: database, listen: "127.0.0.1:0") { site in
            // With keys of its own: Apple's, and the sealing key.
            try await Site.with(apple: .process, ["encryption": "key_file = \"siwatch.key\""]) { elsewhere in
                let signIns = try await elsewhere.apple.signIn(1)
                try await elsewhere.daemon { _ in
                    try await elsewhere.backend.first(of: "SELECT COUNT(*) FROM signing_key", within: .seconds(60)) { $0 > 0 }
                }
                try await site.daemon { _ in try await site.settle(signIns) }

                let forged = try await elsewhere.apple.notify(DeleteAccounts(), users: [signIns[0].userID])
                let planted = try await elsewhere.backend.rows("SELECT * FROM signing_key")
                for row in planted {
                    let names = row.columnNames.joined(separator: ", ")
                    let marks = row.columnNames.map { _ in "?" }.joined(separator: ", ")
                    try await site.backend.execute("INSERT INTO signing_key (\(names)) VALUES (\(marks))", Array(row.databaseValues))
                }
                try await site.backend.insert(notifications: forged.map(\.body))

                try await site.daemon { daemon in
                    // siwatch has looked at the event, and waits for its key.
                    try await site.backend.until("SELECT COUNT(*) FROM notification_queue WHERE due_at > 0 AND attempts = 0", is: 1)
                    #expect(await daemon.line(containing: "not as siwatch wrote them") != nil)
                    let count = "\nsiwatch_signing_key_changes_total{change=\"disbelieved\"} \(planted.count)\n"
                    let page = try await OperationsPages(of: daemon).get("metrics", within: .seconds(60)) { $0.contains(count) }
                    #expect(page.contains(count))
                }
                #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 1)
            }
        }
    }
}
