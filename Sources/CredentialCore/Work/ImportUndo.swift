// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The rows that one transaction of an import wrote into `grant_queue`. It names no user.
///
/// `request_key` holds it, and siwatch forgets it before the rows of `grant_log` that an undo has to read.
package struct ImportLedger: Codable, Sendable, Equatable {
    /// The first and the last id of each run of consecutive rows.
    private var ends: [Int64] = []
    /// The rows whose user siwatch knew at their client before the import wrote them.
    package private(set) var known: [Int64] = []

    /// A ledger whose rows are all undone.
    package init() {}

    package init(rows: [Int64], known: [Int64]) {
        for row in rows.sorted() {
            if let last = ends.last, row - last <= 1 { ends[ends.endIndex - 1] = row } else { ends += [row, row] }
        }
        self.known = known.sorted()
    }

    package var rows: [Int64] { runs.flatMap { Array($0) } }

    package func contains(_ row: Int64) -> Bool { runs.contains { $0.contains(row) } }

    /// Empty if somebody else has written the ledger: no batch has so many rows.
    fileprivate var runs: [ClosedRange<Int64>] {
        var runs: [ClosedRange<Int64>] = []
        var count: Int64 = 0
        for place in stride(from: 0, to: ends.count - 1, by: 2) {
            let (first, last) = (ends[place], ends[place + 1])
            guard first > 0, first <= last, last - first < Int64(ImportBatch.size) else { return [] }
            count += last - first + 1
            guard count <= Int64(ImportBatch.size) else { return [] }
            runs.append(first...last)
        }
        return runs
    }

    /// The owner of the ledgers of an import in `request_key`. The key of each is the greatest id of its rows.
    package static func owner(of importID: String) -> String { "\(ownerPrefix)\(importID)" }

    package static let ownerPrefix = "\timported "
}

/// Ledgers of one import, to look many rows up in.
package struct ImportLedgers: Sendable {
    /// In order.
    private let runs: [ClosedRange<Int64>]
    private let known: Set<Int64>

    package init(_ ledgers: [ImportLedger]) {
        runs = ledgers.flatMap(\.runs).sorted { $0.lowerBound < $1.lowerBound }
        known = Set(ledgers.flatMap(\.known))
    }

    package func contains(_ row: Int64) -> Bool {
        var (low, high) = (0, runs.count)
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].lowerBound <= row { low = middle + 1 } else { high = middle }
        }
        return low > 0 && runs[low - 1].contains(row)
    }

    /// Whether siwatch knew the user of the row before.
    package func isKnown(_ row: Int64) -> Bool { known.contains(row) }
}

/// One transaction of an import, as its ledger tells.
package struct ToldImport: Sendable, Equatable {
    package var importID: String
    /// The greatest id of its rows.
    package var batch: Int64
    package var ledger: ImportLedger
    package var toldAt: Timestamp?

    package init(importID: String, batch: Int64, ledger: ImportLedger, toldAt: Timestamp?) {
        self.importID = importID
        self.batch = batch
        self.ledger = ledger
        self.toldAt = toldAt
    }
}

/// The logs that name users and have no index of them. An undo searches them before its transactions.
package enum UserLog: String, Sendable, CaseIterable {
    case grants = "grant_log"
    case notifications = "notification_log"
    case changes = "credential_change"
}

/// A row of a log that names a user.
package struct LoggedUser: Sendable, Equatable {
    package var id: Int64
    package var userID: String
    /// The row's id in `grant_queue`; nil in the other logs.
    package var grantID: Int64?

    package init(id: Int64, userID: String, grantID: Int64?) {
        self.id = id
        self.userID = userID
        self.grantID = grantID
    }
}

/// An operator wants one batch of an import undone.
package struct ImportUndo: Codable, Sendable, Equatable {
    package var importID: String
    /// The greatest id of the rows of the batch.
    package var batch: Int64
    /// The rows of logs about users of the batch that a search has found, by table.
    package var found: [String: [Int64]] = [:]
    /// The greatest id of each log at the beginning of that search.
    package var searchedUpTo: [String: Int64] = [:]
    /// How many rows undos had erased from `grant_log` before that search, and this undo since. SQLite gives the ids of erased rows again,
    /// so a search is worthless after another undo.
    package var erasedBefore: Int64 = 0
    /// Whether to count only, and to change nothing.
    package var isRehearsal: Bool

    package init(importID: String, batch: Int64, isRehearsal: Bool) {
        self.importID = importID
        self.batch = batch
        self.isRehearsal = isRehearsal
    }

    /// The name in place of the user in the newest row of `credential_change`, which stays.
    package static let nobody = "undone"

    /// The counter of the rows that undos have erased from `grant_log`.
    package static let erasedCounter = "grant_log_undone"

    /// What became of a batch.
    package struct Result: Codable, Sendable, Equatable {
        /// Credentials that are gone.
        package var removed = 0
        /// Waiting rows that are gone from `grant_queue`.
        package var taken = 0
        /// Credentials that stay, by `KeptImport`.
        package var kept: [String: Int] = [:]
        /// Credentials with a row that the daemon is settling.
        package var claimed = 0
        /// The greatest id of `grant_log` after rows were erased from it; nil if none was. SQLite gives the greater ids to new rows.
        package var newestGrant: Int64?
        /// How many rows undos have erased from `grant_log`, this batch included.
        package var erased: Int64 = 0
        /// Whether another undo has erased rows since the search. Then nothing was done.
        package var isOutdated = false

        package init() {}
    }
}

/// Why an undo keeps a credential.
package enum KeptImport: String, Sendable, CaseIterable {
    /// siwatch knew the credential before the import.
    case knownBefore = "known_before"
    /// A backend or another import has told a sign-in, whatever became of that row.
    case otherSignIn = "other_sign_in"
    /// A backend has asked to revoke the user's tokens.
    case revocation
    /// Apple has notified siwatch of the user.
    case notification
    /// siwatch holds a sign-in or a token that no row of the import has brought.
    case unexplained
}

/// What an undo does with a credential that an import has told.
package enum ImportVerdict: Sendable, Equatable {
    case remove
    case keep(KeptImport)
    /// The daemon is settling a row of the import.
    case wait
    /// siwatch holds no credential.
    case nothing
}

/// The rows about a credential that an import has told.
package struct ImportedCredential: Sendable, Equatable {
    /// Whether siwatch knew the credential when the import wrote its first row about it.
    package var wasKnown = false
    /// The times of the import's rows.
    package var times: Set<Timestamp> = []
    /// Whether a daemon holds a row of the import.
    package var isClaimed = false
    /// Whether a row of a queue or of a log is not the import's.
    package var hasOtherSignIn = false
    package var hasRevocation = false
    package var hasNotification = false

    package init() {}

    /// Removes only a credential that nothing but the import has told of. In doubt it keeps.
    ///
    /// The rows of the logs are one proof and the registers are another one. A credential goes only if both agree.
    ///
    /// - Parameter record: nil if siwatch holds none.
    package func verdict(on record: CredentialRecord?, under registers: AppUser) -> ImportVerdict {
        if isClaimed { return .wait }
        guard let reason = reason(record, registers) else { return .remove }
        return record == nil ? .nothing : .keep(reason)
    }

    private func reason(_ record: CredentialRecord?, _ registers: AppUser) -> KeptImport? {
        if wasKnown { return .knownBefore }
        if hasOtherSignIn { return .otherSignIn }
        if hasRevocation || registers.revokedAt != nil || record?.credential.revokedAt != nil { return .revocation }
        if hasNotification || registers.holdsEvent { return .notification }
        if let record, !record.credential.isExplained(by: times) { return .unexplained }
        return nil
    }
}

extension AppUser {
    /// Whether a register holds something that only Apple's events tell.
    fileprivate var holdsEvent: Bool {
        consentRevokedAt != nil || deletedAt != nil || forwarding != nil || mailbox?.rank == .event
    }
}

extension Credential {
    /// Whether the sign-in and every token have the time of one of these rows.
    fileprivate func isExplained(by times: Set<Timestamp>) -> Bool {
        guard let grantedAt, times.contains(grantedAt) else { return false }
        let tokens = [token, formerToken].compactMap { $0?.key.grantedAt } + olderTokens.keys.map(\.grantedAt)
        return tokens.allSatisfy { times.contains($0) }
    }
}
