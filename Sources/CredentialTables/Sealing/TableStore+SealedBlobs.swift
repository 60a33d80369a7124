// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// How far the walk has come that seals the tables anew.
struct SealedPlace: Sendable {
    var table = 0
    var key = SealedTable.own[0].start

    /// - Returns: whether the walk is over.
    mutating func pass(_ rows: [SealedTable.Row], of limit: Int) -> Bool {
        // Text that is no UTF-8 may never come to an end.
        if rows.count == limit, let last = rows.last?.key, last != key {
            key = last
            return false
        }
        let next = table + 1
        self = SealedPlace()
        guard next < SealedTable.own.count else { return true }
        (table, key) = (next, SealedTable.own[next].start)
        return false
    }
}

extension TableStore {
    package func reseal(upTo limit: Int, _ seal: @Sendable (SealedBlob) async throws -> [UInt8]?) async throws -> Resealing {
        let directory = self.directory.withLockedValue { $0 }
        var place = upkeep.withLockedValue(\.resealing)
        let table = SealedTable.own[place.table]
        let rows = try await query { [place] in try table.rows(after: place.key, upTo: limit, on: $0) }
        var changes = [[[ColumnValue]]](repeating: [], count: table.sealed.count)
        for row in rows {
            for (column, sealed) in row.sealed.enumerated() {
                guard let old = sealed.bytes, let blob = table.blob(old, of: row, grantedAt: sealed.grantedAt, in: directory),
                    let new = try await seal(blob)
                else { continue }
                changes[column].append(row.key + bound(old, new))
            }
        }
        var resealed = 0
        if changes.contains(where: { !$0.isEmpty }) {
            resealed = try await transaction { [changes] connection in
                var resealed = 0
                for (sealed, rows) in zip(table.sealed, changes) where !rows.isEmpty {
                    try connection.forEachRow(of: connection.ask(table.exchange(sealed.column), rows)) { _, _ in resealed += 1 }
                }
                return resealed
            }
        }
        // With the old key, the old bytes in the files can still be read.
        if resealed > 0 { tokenWasErased() }
        let isDone = place.pass(rows, of: limit)
        upkeep.withLockedValue { [place] in $0.resealing = place }
        return Resealing(resealed: resealed, left: changes.map(\.count).reduce(0, +) - resealed, isDone: isDone)
    }

    package func sealedBlobs() async throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for table in SealedTable.own + [.queue] {
            var place: [ColumnValue]? = table.start
            while let last = place {
                try Task.checkCancellation()
                let (found, end) = try await query { connection in
                    let end = try table.end(of: 20_000, after: last, on: connection)
                    return (try table.count(where: table.isBetween(last, end), on: connection), end)
                }
                counts.merge(found, uniquingKeysWith: +)
                place = end
            }
        }
        return counts
    }

    package func sealedBlobs(where isMeant: @Sendable (SealedBlob) -> Bool) async throws -> [String: Int] {
        let limit = 2_000
        var counts: [String: Int] = [:]
        var place = SealedPlace()
        var isDone = false
        while !isDone {
            try Task.checkCancellation()
            let table = SealedTable.own[place.table]
            let (rows, directory) = try await query { [place] connection in
                let rows = try table.rows(after: place.key, upTo: limit, on: connection)
                // After the rows, so that it has the client of each. A command that appends holds no directory.
                return (rows, try ClientDirectory(connection))
            }
            for row in rows {
                for (bytes, grantedAt) in row.sealed {
                    guard let bytes else { continue }
                    let blob = table.blob(bytes, of: row, grantedAt: grantedAt, in: directory)
                    if blob.map(isMeant) ?? true { counts[SealedTable.keyID(of: bytes), default: 0] += 1 }
                }
            }
            isDone = place.pass(rows, of: limit)
        }
        return counts
    }

    // MARK: Counts

    package func noteSealedBlobs(_ counts: [String: Int], lost: [String: Int], at now: Timestamp) async throws {
        try await transaction { connection in
            try connection.lockSettlements()
            for keyID in try connection.sealedCounts().keys.keys.sorted() where counts[keyID] == nil {
                for kind in ["sealed", "sealed_lost", "seals"] {
                    let name = "\(kind).\(keyID)"
                    try connection.execute("DELETE FROM counter WHERE name = \(name)")
                }
            }
            for (keyID, count) in counts.sorted(by: { $0.key < $1.key }) {
                try connection.set("sealed.\(keyID)", to: Int64(count))
                try connection.set("sealed_lost.\(keyID)", to: Int64(lost[keyID] ?? 0))
            }
            try connection.set(SealedCounts.countedAtName, to: now.milliseconds)
        }
    }

    package func noteSeals(_ counts: [String: Int]) async throws {
        guard !counts.isEmpty else { return }
        try await transaction { connection in
            try connection.lockSettlements()
            for (keyID, count) in counts.sorted(by: { $0.key < $1.key }) {
                let name = "seals.\(keyID)"
                try connection.execute("INSERT INTO counter (name, value) VALUES (\(name), 0) ON CONFLICT (name) DO NOTHING")
                try connection.add(count, to: name)
            }
        }
    }

    package func sealedCounts() async throws -> SealedCounts { try await query(.short) { try $0.sealedCounts() } }
}

extension SealedCounts {
    fileprivate static let countedAtName = "sealed_counted_at"
}

extension TableConnection {
    package func sealedCounts() throws -> SealedCounts {
        try fetchAll("SELECT name, value FROM counter WHERE name >= 'seal' AND name < 'seam'").reduce(into: SealedCounts()) { counts, row in
            let name = row.text(at: 0) ?? ""
            if name == SealedCounts.countedAtName { counts.countedAt = row.time(at: 1) }
            // Somebody else may write names too.
            guard let parts = name.wholeMatch(of: /(sealed|sealed_lost|seals)\.([0-9a-f]{8})/) else { return }
            var ofKey = counts.keys[String(parts.2)] ?? SealedCounts.OfKey()
            switch parts.1 {
            case "sealed": ofKey.blobs = row.count(at: 1)
            case "sealed_lost": ofKey.lost = row.count(at: 1)
            default: ofKey.seals = row.count(at: 1)
            }
            counts.keys[String(parts.2)] = ofKey
        }
    }
}
