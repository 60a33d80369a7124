// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// A member of the group writes any value into any row of the file, past every CHECK. siwatch then refuses or ignores the row: no command
/// traps or hangs, and none prints a character that a terminal would obey.
@Suite(.timeLimit(.minutes(10))) struct FileWriterTests {
    enum Malice: String, CaseIterable {
        case nothing, least, greatest

        /// In `make test` each third of the tables has one of them.
        var turn: Int? { Self.allCases.firstIndex(of: self) }

        func value(_ type: String) -> DatabaseValue {
            switch (self, type) {
            case (.nothing, _): .null
            case (.least, "INTEGER"): Int64.min.databaseValue
            case (.least, "TEXT"): "".databaseValue
            case (.least, _): Data().databaseValue
            case (.greatest, "INTEGER"): Int64.max.databaseValue
            case (.greatest, "TEXT"): "\u{1b}[2J\u{9b}31m\u{202e}\u{2028}\n\u{0}{\"a\":[1e999]}".databaseValue
            case (.greatest, _): Data(repeating: 0xff, count: 300).databaseValue
            }
        }
    }

    /// Controls but the line feed, and marks that are invisible or change the direction.
    private static var harmful: Regex<Substring> {
        /[\u{0}-\u{9}\u{b}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{feff}]/.matchingSemantics(.unicodeScalar)
    }

    @Test(.site(["refresh": "interval = \"1s\""]), arguments: Malice.allCases)
    func noRowOfAnyTableTrapsOrIsPrintedRaw(_ malice: Malice) async throws {
        let people = try await site.apple.signIn(6)
        try await site.daemon { _ in
            try await site.settle(people)
            let events = try await site.apple.notify(RevokeConsent(), users: [people[0].userID]).map(\.body)
            try await site.backend.insert(notifications: events + ["no notification"])
            try await site.backend.insert(revocationsOf: [people[1].userID], at: SimulatedApple.clientIDs[0])
            try await site.backend.until(["revocation_log": 1, "notification_quarantine": 1])
        }
        // What waits in the queues.
        try await site.backend.insert(notifications: ["another notification"])
        try await site.backend.insert(try await site.apple.signIn(1))
        try await site.backend.insert(revocationsOf: [people[4].userID], at: SimulatedApple.clientIDs[0])
        let tables = try await site.backend.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        #expect(tables.count > 20)
        let commands = [
            ["status"], ["doctor", "--before-start"], ["rejected", "example"], ["explain", people[0].userID], ["quarantine", "list"],
            ["explain", people[1].userID, "--receipts"], ["export", people[2].userID], ["run", "--once"], ["forget", people[3].userID],
        ]
        try await withThrowingTaskGroup(of: Void.self) { group in
            let own = tables.enumerated().filter { Length.isFull || $0.offset % 3 == malice.turn }
            for (number, table) in own.map({ $0.element["name"] as String }).enumerated() {
                // Two at a time, so that none is late for want of a processor.
                if number > 1 { try await group.next() }
                let folder = try site.folder.copy()
                group.addTask {
                    defer { folder.remove() }
                    try Self.fill(table, malice, at: folder.databasePath)
                    for command in commands { try await Self.run(command, on: folder, "\(malice) in \(table)") }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func run(_ command: [String], on folder: WatchedFolder, _ place: String) async throws {
        let (status, lines) = try await result(of: command, on: folder)
        let allowed: Set<Int32> = command[0] == "run" ? [0, 1, 69, 78, 124] : [0, 1, 2, 64, 69, 78]
        let text = lines.joined(separator: "\n")
        #expect(allowed.contains(status), "\(place): \(command) ended with \(status): \(text.suffix(2000))")
        #expect(!text.contains(harmful), "\(place): \(command): \(text.debugDescription)")
    }

    private static func result(of command: [String], on folder: WatchedFolder) async throws -> (status: Int32, output: [String]) {
        guard command[0] == "run" else { return try await folder.siwatch(command) }
        // Somebody who takes the last id that a table can give leaves none for siwatch, which then waits as for a full disk.
        let words = try ["timeout", "5", ChildProcess.program("siwatch").path] + command + ["--config", folder.configurationPath]
        let process = try ChildProcess.found(words, environment: ["SWIFT_BACKTRACE": "enable=no"])
        return (try await process.end(), process.output)
    }

    /// One number of a row that is sound otherwise, because a sum meets it then.
    @Test(.site) func noNumberOfASoundRowTraps() async throws {
        let people = try await site.apple.signIn(3)
        try await site.daemon { _ in
            try await site.settle(people)
            try await site.backend.insert(notifications: ["no notification"])
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
        }
        try await site.backend.insert(notifications: ["another"])
        try await site.backend.insert(try await site.apple.signIn(1))
        try await site.backend.insert(revocationsOf: [people[0].userID], at: SimulatedApple.clientIDs[0])
        for statement in [
            "UPDATE credential_count SET count = 9223372036854775807",
            "UPDATE app SET revocation_hour_at = unixepoch() * 1000, revocations_opened = 9223372036854775807",
            "UPDATE counter SET value = 9223372036854775807",
            "UPDATE credential SET failures = 9223372036854775807, attempts = -9223372036854775808, due_at = 0",
        ] {
            let folder = try site.folder.copy()
            defer { folder.remove() }
            let file = try DatabaseQueue(path: folder.databasePath)
            try await file.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA ignore_check_constraints = ON; \(statement)") }
            try file.close()
            let (status, output) = try await folder.run("run", "--once")
            #expect(status == 0, "\(statement): \(output.suffix(20))")
            let backend = try Backend(databasePath: folder.databasePath)
            #expect(try await backend.int("SELECT COUNT(*) FROM notification_queue") == 0, "\(statement)")
            try backend.close()
        }
    }

    /// Writes the value into every column of every row, where the table lets it, and inserts a row of such values.
    private static func fill(_ table: String, _ malice: Malice, at path: String) throws {
        let file = try DatabaseQueue(path: path)
        defer { try? file.close() }
        try file.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; PRAGMA recursive_triggers = OFF")
            let columns = try Row.fetchAll(db, sql: "SELECT name, type FROM pragma_table_info(?)", arguments: [table])
            var changes = 0
            for column in columns {
                let value = malice.value(column["type"])
                let sql = "UPDATE OR IGNORE \(table) SET \(column["name"] as String) = ?"
                // STRICT, NOT NULL and triggers hold against everybody.
                if (try? db.execute(sql: sql, arguments: [value])) != nil { changes += db.changesCount }
            }
            let names = columns.map { $0["name"] as String }.joined(separator: ", ")
            let places = columns.map { _ in "?" }.joined(separator: ", ")
            let values = StatementArguments(columns.map { malice.value($0["type"]) })
            if (try? db.execute(sql: "INSERT OR IGNORE INTO \(table) (\(names)) VALUES (\(places))", arguments: values)) != nil {
                changes += db.changesCount
            }
            // Few tables are empty, and most columns are not NULL.
            if malice != .nothing { #expect(changes > 0, "\(malice) does not enter \(table)") }
        }
    }
}
