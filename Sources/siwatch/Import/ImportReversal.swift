// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Undoes an import, one batch at a time. Each batch is one operator's request, and one transaction decides about all of its users.
struct ImportReversal {
    let importID: String
    let configuration: Configuration
    let progress: ProgressLine

    /// How long to come back to rows that the daemon is settling.
    private static let patience = Duration.seconds(30)
    private static let pause = Duration.milliseconds(500)
    /// Rows of a log in one read.
    private static let page = 10_000

    struct Report: Encodable {
        var id: String
        var isRehearsal: Bool
        /// When the first and the last batch were told, if they are further apart than one import can be; otherwise nil.
        var toldFrom: String?
        var toldTo: String?
        /// Credentials that only the import had told.
        var removed = 0
        /// Waiting sign-ins that are gone from `grant_queue`.
        var taken = 0
        /// Credentials that stay, by the reason.
        var kept: [String: Int] = [:]
        /// Credentials with a row that siwatch is settling.
        var claimed = 0

        init(id: String, isRehearsal: Bool) {
            self.id = id
            self.isRehearsal = isRehearsal
        }

        var text: String {
            let credentials = removed.grouped
            let rows = taken.grouped
            let first =
                isRehearsal
                ? "Import \(id.printable): \(credentials) credentials and \(rows) waiting sign-ins would go."
                : "Import \(id.printable): \(credentials) credentials and \(rows) waiting sign-ins are gone."
            let reasons = KeptImport.allCases.compactMap { reason -> String? in
                guard let count = kept[reason.rawValue], count > 0 else { return nil }
                return "kept \(count.grouped): \(reason.text)"
            }
            let busy = claimed > 0 ? ["waits for \(claimed.grouped): siwatch is settling their sign-ins"] : []
            var several: [String] = []
            if let toldFrom, let toldTo {
                several.append("told from \(toldFrom) to \(toldTo): these are several imports of one name, and all of them go")
            }
            return ([first] + several + reasons + busy).joined(separator: "\n")
        }

        fileprivate mutating func note(_ times: [Timestamp]) {
            guard let first = times.min(), let last = times.max(), first.duration(to: last) > RequestKey.life else { return }
            (toldFrom, toldTo) = (first.text, last.text)
        }
    }

    /// - Parameter isRehearsal: whether to count only, and to change nothing.
    /// - Throws: `CommandFailure`. What is undone by then stays undone, and a repeated command goes on.
    func carryOut(isRehearsal: Bool) async throws -> Report {
        var report = Report(id: importID, isRehearsal: isRehearsal)
        var results: [Int64: ImportUndo.Result] = [:]
        let end = ContinuousClock.now + Self.patience
        while true {
            // A claimed row is settled by the next round. The search finds its row in the log.
            let (all, times) = try await search(isRehearsal: isRehearsal)
            report.note(times)
            let undos = all.filter { results[$0.batch].map { $0.claimed > 0 } ?? true }
            progress.begin(isRehearsal ? "looking" : "undoing", of: undos.count, "batches")
            defer { progress.end() }
            var newest = Int64.max
            for var undo in undos {
                // New rows may have the ids of erased ones. So the search counts only up to the rows that were left then.
                undo.searchedUpTo[UserLog.grants.rawValue] = min(undo.searchedUpTo[UserLog.grants.rawValue] ?? 0, newest)
                let result: ImportUndo.Result
                do {
                    result = try await carryOut(undo)
                } catch let failure as CommandFailure where !isRehearsal && report.removed + report.taken > 0 {
                    let sentence = """
                        before that, \(report.removed.grouped) credentials and \(report.taken.grouped) waiting sign-ins of the import were taken \
                        back: repeat the command, and the undo goes on
                        """
                    throw CommandFailure(code: failure.code, messages: failure.messages + [sentence])
                }
                newest = min(newest, result.newestGrant ?? newest)
                report.removed += result.removed
                report.taken += result.taken
                results[undo.batch] = result
                progress.add()
            }
            report.kept = results.values.reduce(into: [:]) { kept, result in kept.merge(result.kept) { $0 + $1 } }
            report.claimed = results.values.reduce(0) { $0 + $1.claimed }
            if report.claimed == 0 || isRehearsal || ContinuousClock.now >= end { return report }
            try await Task.sleep(for: Self.pause)
        }
    }

    private func carryOut(_ undo: ImportUndo) async throws -> ImportUndo.Result {
        let request = OperatorRequest.undoImport(undo)
        let answer = try await request.carryOut(in: configuration)
        guard case .importUndone(let result) = answer else { throw CommandFailure(answer, to: request) }
        return result
    }

    // MARK: The search

    /// Finds the rows of logs about the users of each batch. A search in the transactions would hold up every settlement.
    ///
    /// The connection is closed afterwards, because a request may have to take the lock on the file.
    /// - Returns: also when the batches with rows were told.
    private func search(isRehearsal: Bool) async throws -> (undos: [ImportUndo], toldAt: [Timestamp]) {
        try await configuration.withStore { store in
            let all = try await store.toldImports()
            let batches = all.filter { $0.importID == importID }
            guard !batches.isEmpty else { throw unknown(all) }
            let index = try await users(of: batches, in: store)
            var undos = batches.map { ImportUndo(importID: importID, batch: $0.batch, isRehearsal: isRehearsal) }
            defer { progress.end() }
            for log in UserLog.allCases {
                let greatest = try await store.greatestID(of: log)
                progress.begin("searching \(log.rawValue)", of: nil, "rows")
                var last: Int64 = 0
                while last < greatest {
                    let rows = try await store.loggedUsers(in: log, after: last, upTo: Self.page)
                    guard let end = rows.last?.id else { break }
                    last = end
                    for row in rows {
                        for place in index.batches(of: row.userID) {
                            // The transaction finds the rows of its own batch.
                            if let grant = row.grantID, batches[place].ledger.contains(grant) { continue }
                            undos[place].found[log.rawValue, default: []].append(row.id)
                        }
                    }
                    progress.add(rows.count)
                }
                for place in undos.indices { undos[place].searchedUpTo[log.rawValue] = greatest }
            }
            return (undos, batches.filter { !$0.ledger.rows.isEmpty }.compactMap(\.toldAt))
        }
    }

    private func users(of batches: [ToldImport], in store: any CredentialStore) async throws -> UserIndex {
        progress.begin("reading the import", of: batches.count, "batches")
        var index = UserIndex()
        for (place, batch) in batches.enumerated() {
            for user in try await store.importedUsers(of: batch) { index.add(user, place) }
            progress.add()
        }
        index.sort()
        return index
    }

    private func unknown(_ all: [ToldImport]) -> CommandFailure {
        let names = Dictionary(grouping: all) { $0.importID }.map { id, batches in
            "\(id.printable) of \(batches.compactMap { $0.toldAt }.min()?.text ?? "an unknown time")"
        }
        let known = names.isEmpty ? "it knows no import" : "it knows \(names.sorted().prefix(10).joined(separator: ", "))"
        return .wrongUsage("siwatch knows no import \(importID.printable), or it is too old to be undone; \(known)")
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

extension KeptImport {
    fileprivate var text: String {
        switch self {
        case .knownBefore: "siwatch knew them before the import"
        case .otherSignIn: "a backend or another import told about them too"
        case .revocation: "a backend asked to revoke them"
        case .notification: "Apple told about them"
        case .unexplained: "siwatch holds a sign-in or a token of theirs that the import did not bring"
        }
    }
}
