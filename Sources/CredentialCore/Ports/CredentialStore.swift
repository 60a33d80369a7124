// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package protocol CredentialStore: WorkStore, CredentialReader, BackendDesk, ImportDesk, DeliveryDesk, SigningKeyStore, OperatorDesk,
    SealedBlobs, CommitWatch
{
    /// The version of the library or of the server that keeps the tables.
    var version: String { get async throws }
    /// The other replicas on this database. Nil if the process that works on it has the lock on it.
    var fleet: (any Fleet)? { get }
    /// Makes rows due that a former process had claimed. Only for the process that has the lock on the database.
    func recover() throws
    /// Writes down that siwatch lives. A replica says so with each renewal.
    func beat(at now: Timestamp) async throws
    /// How often since the last call another process wrote the log back into the file, which only siwatch should do.
    func takeForeignCheckpoints() -> Int
    /// Says that another file stands at a path than the one that is open; a link may lead elsewhere by now. Nil if not. A look costs one
    /// `stat`.
    func displacement(from path: String) -> String?
    /// Tries to begin what an insert of a backend begins with, over a connection of its own, and writes nothing. Says what keeps backends
    /// from inserting, in words that may hold any characters.
    func insertObstacle() async throws -> String?
    /// How the tables differ from those that siwatch made, in words. Nil if they do not. On a server, rights keep others from changing
    /// them.
    func schemaDifference() async throws -> String?
    func close() async throws

    // MARK: Upkeep, with or without work in the queues

    /// Deletes rows past their retention. Needs a time that can be trusted.
    func forget(at now: Timestamp, naming pseudonymizer: any UserPseudonymizer) async throws
    /// Makes erased data unreadable in the files too; the next time, if a reader is in the way for longer than `patience`, in which nobody can
    /// write.
    func sweep(at now: Timestamp, patience: Duration) async throws
    /// How many rejections that were believed an hour ago or earlier had no notification, by app. Each counts once.
    func countMissedNotifications(at now: Timestamp) async throws -> [String: Int]
    /// Lets the breakers forget blamed clients and rejected canaries without a token to ask about. Says whether there were any.
    func forgetDryCauses(at now: Timestamp) async throws -> Bool
    /// Brings forward checks that are due later than the interval allows, because the interval was longer before. It spreads them over the
    /// interval, and none comes sooner after Apple's last answer than the interval allows.
    func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws
    func noteBackup(at now: Timestamp) async throws
    /// Since when a reader has kept erased data readable in the log; nil if none does.
    var logPinnedSince: Timestamp? { get async throws }

    // MARK: The apps of a configuration, and the secrets of a database

    /// Stores the configured apps. Throws `StoreOpenError` if a client would move to another app.
    func register(_ apps: [AppClients]) throws
    /// Finds what `register` would refuse. Changes nothing.
    func check(_ apps: [AppClients]) throws(StoreOpenError)
    /// Renames an app in every table that holds its name, or nowhere. On a file, the caller holds the lock. On a server, a replica that
    /// starts meanwhile waits.
    func renameApp(_ old: String, to new: String) async throws
    /// Lets the breakers forget canaries and clients that the configuration no longer names, and takes notifications for clients that it
    /// names again out of the quarantine.
    func adopt(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws
    /// A random key that the database keeps sealed, made once. Throws `damaged` if it is missing and there are credentials already.
    func sealedSecret(named name: String, make: @Sendable () throws -> [UInt8]) throws -> [UInt8]
    func sealedSecret(named name: String) throws -> [UInt8]?
    /// From now on the store proves decisions, and carries out those that it can prove. Without this, it carries out none.
    /// - Parameter memory: of the processes before; nil if nothing outlives a process.
    func trust(_ prover: any DecisionProver, since now: Timestamp, _ memory: (any DecisionMemory)?)
}

/// What a store without a file of its own answers.
extension CredentialStore {
    package var fleet: (any Fleet)? { nil }
    package func recover() throws {}
    package func beat(at now: Timestamp) async throws {}
    package func takeForeignCheckpoints() -> Int { 0 }
    package func displacement(from path: String) -> String? { nil }
    package func schemaDifference() async throws -> String? { nil }
}

package enum AppRenameError: Error, Sendable, Equatable {
    case unknown(String, known: [String])
    case taken(String)
    /// A replica works on the database.
    case inUse
}
