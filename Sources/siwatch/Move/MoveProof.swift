// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Crypto

/// Compares what both stores hold, read back from them after the copy.
struct MoveProof: Encodable {
    /// A table or view of a store.
    struct Side: Encodable, Equatable {
        var rows = 0
        /// SHA-256 of the rows in the order of their key, in hexadecimal.
        var sha256 = ""
        /// The greatest id that was ever assigned, if the table remembers it.
        var greatestID: Int64?
    }

    struct Table: Encodable {
        var name: String
        var source: Side
        var destination: Side

        var isEqual: Bool { source == destination }
    }

    /// States that were derived anew from the registers in the destination.
    struct States: Encodable {
        var count: Int
        var different: Int
    }

    private(set) var tables: [Table] = []
    private(set) var states: States

    var holds: Bool { tables.allSatisfy(\.isEqual) && states.different == 0 }

    init(of source: any TableContents, and destination: any TableContents, progress: ProgressLine) async throws {
        states = States(count: 0, different: 0)
        for table in StoredTable.all + StoredTable.views {
            // Each store reads by itself, so neither waits for the other.
            async let there = Self.side(table, of: destination, progress)
            let here = try await Self.side(table, of: source, progress)
            tables.append(Table(name: table.name, source: here, destination: try await there))
        }
        var audit = StandingAudit()
        try await destination.beginReading(StandingAudit.table)
        while let rows = try await destination.read() { audit.look(at: rows) }
        states = States(count: audit.count, different: audit.different)
    }

    private static func side(_ table: StoredTable, of store: any TableContents, _ progress: ProgressLine) async throws -> Side {
        var side = Side()
        var digest = SHA256()
        try await store.beginReading(table)
        while let rows = try await store.read() {
            rows.bytes.withUnsafeBytes { digest.update(bufferPointer: $0) }
            side.rows += rows.count
            if table.kind != .view { progress.add(rows.count) }
        }
        side.sha256 = digest.finalize().map(\.hexadecimal).joined()
        if table.remembersGreatestID { side.greatestID = try await store.greatestID(of: table) }
        return side
    }
}

extension MoveProof {
    /// For people: a line for each table that has rows, and what was compared.
    var lines: [String] {
        let shown = tables.filter { $0.source.rows + $0.destination.rows > 0 || !$0.isEqual }
        let width = shown.map(\.name.count).max() ?? 0
        let rows = shown.map { $0.source.rows.grouped.count }.max() ?? 0
        var lines = shown.map { table in
            let (name, count) = (table.name.padded(to: width), table.source.rows.grouped.padded(to: -rows))
            return "  \(name)  \(count)  \(table.difference ?? String(table.source.sha256.prefix(16)))"
        }
        let equal = tables.count { $0.isEqual }
        lines.append("  \(equal) of \(tables.count) tables and views are equal, row by row, by SHA-256 of all that is in them.")
        lines.append(
            "  \((states.count - states.different).grouped) of \(states.count.grouped) states were derived again from what is stored, and are equal."
        )
        return lines
    }
}

extension MoveProof.Table {
    /// Nil if the two sides are equal.
    fileprivate var difference: String? {
        if isEqual { return nil }
        if source.rows != destination.rows { return "DIFFERENT: \(destination.rows.grouped) rows in the destination" }
        return source.sha256 != destination.sha256 ? "DIFFERENT" : "DIFFERENT: the next ids are not the same"
    }
}
