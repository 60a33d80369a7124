// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Finds the rows of logs about the users of an import, before an undo. A search in the transactions would hold up every settlement.
package struct ImportSearch: Sendable {
    /// How far a search has come, for a line that shows it.
    package enum Step: Sendable {
        case beginsToReadImport(batches: Int)
        case begins(UserLog)
        /// Batches of the import, or rows of a log.
        case hasRead(Int)
    }

    private let desk: any ImportDesk
    private let progress: @Sendable (Step) -> Void

    /// Rows of a log in one read.
    private static let page = 10_000

    package init(_ desk: any ImportDesk, progress: @escaping @Sendable (Step) -> Void = { _ in }) {
        self.desk = desk
        self.progress = progress
    }

    /// The requests that undo these batches of one import, in their order.
    package func undos(of batches: [ToldImport], isRehearsal: Bool) async throws -> [ImportUndo] {
        guard !batches.isEmpty else { return [] }
        // First, so that the requests know of every row that an undo erases during the search.
        let erased = try await desk.erasedSignIns()
        let index = try await users(of: batches)
        var undos = batches.map { batch in
            var undo = ImportUndo(importID: batch.importID, batch: batch.batch, isRehearsal: isRehearsal)
            undo.erasedBefore = erased
            return undo
        }
        for log in UserLog.allCases {
            progress(.begins(log))
            let greatest = try await desk.greatestID(of: log)
            var last: Int64 = 0
            while last < greatest {
                let rows = try await desk.loggedUsers(in: log, after: last, upTo: Self.page)
                guard let end = rows.last?.id else { break }
                last = end
                for row in rows {
                    for place in index.batches(of: row.userID) {
                        // The transaction finds the rows of its own batch.
                        if let grant = row.grantID, batches[place].ledger.contains(grant) { continue }
                        undos[place].found[log.rawValue, default: []].append(row.id)
                    }
                }
                progress(.hasRead(rows.count))
            }
            for place in undos.indices { undos[place].searchedUpTo[log.rawValue] = greatest }
        }
        return undos
    }

    private func users(of batches: [ToldImport]) async throws -> UserIndex {
        progress(.beginsToReadImport(batches: batches.count))
        var index = UserIndex()
        for (place, batch) in batches.enumerated() {
            for user in try await desk.importedUsers(of: batch) { index.add(user, place) }
            progress(.hasRead(1))
        }
        index.sort()
        return index
    }
}

/// The batches of users by a hash. Two users may share a hash: the transaction looks at the names themselves.
private struct UserIndex {
    private var places: [(hash: Int, batch: Int)] = []

    mutating func add(_ user: String, _ batch: Int) {
        places.append((user.hashValue, batch))
    }

    mutating func sort() {
        places.sort { ($0.hash, $0.batch) < ($1.hash, $1.batch) }
    }

    func batches(of user: String) -> [Int] {
        let hash = user.hashValue
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if places[middle].hash < hash { low = middle + 1 } else { high = middle }
        }
        var found: [Int] = []
        while low < places.count, places[low].hash == hash {
            if found.last != places[low].batch { found.append(places[low].batch) }
            low += 1
        }
        return found
    }
}
