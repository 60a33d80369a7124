// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// All that a store has to do, whatever it is made of.
package protocol CredentialStore: WorkStore, CredentialReader, BackendDesk, ImportDesk, DeliveryDesk, SigningKeyStore, OperatorDesk,
    StoreUpkeep, Registrar,
    CommitWatch
{
    /// The version of the library or of the server that keeps the tables.
    ///
    /// - Throws: `StoreError`.
    var version: String { get async throws }

    /// The other replicas on this database. Nil if the process that works on it has the lock on it.
    var fleet: (any Fleet)? { get }

    /// Makes rows due that a former process had claimed. Only for the process that has the lock on the database.
    func recover() throws

    /// Writes down that siwatch lives. A replica says so with each renewal.
    func beat(at now: Timestamp) async throws

    /// How often since the last call another process wrote the log back into the file, which only siwatch should do.
    func takeForeignCheckpoints() -> Int

    /// Says that another file stands at a path than the one that is open. Nil if it is the one. A look costs one `stat`.
    ///
    /// - Parameter path: the name by which the file was opened. A link in it may lead elsewhere by now.
    func displacement(from path: String) -> String?

    /// Tries to begin what an insert of a backend begins with, over a connection of its own, and writes nothing.
    ///
    /// - Returns: what keeps backends from inserting, in words that may hold any characters; nil if nothing does.
    /// - Throws: `StoreError` if the database does not answer.
    func insertObstacle() async throws -> String?

    /// How the tables differ from those that siwatch made, in words. Nil if they do not. On a server, rights keep others from changing them.
    ///
    /// - Throws: `StoreError`.
    func schemaDifference() async throws -> String?

    /// Ends every connection.
    func close() async throws
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

/// Regular upkeep of a store, with or without work in its queues.
package protocol StoreUpkeep: Sendable {
    /// Deletes rows past their retention. Needs a time that can be trusted.
    ///
    /// - Parameter pseudonymizer: names the users that siwatch forgets.
    func forget(at now: Timestamp, naming pseudonymizer: any UserPseudonymizer) async throws

    /// Makes erased data unreadable in the files too.
    func sweep(at now: Timestamp) async throws

    /// Looks at the rejections that were believed an hour ago or earlier.
    ///
    /// - Returns: how many of them had no notification, by app. Each counts once.
    func countMissedNotifications(at now: Timestamp) async throws -> [String: Int]

    /// Lets the breakers forget blamed clients and rejected canaries without a token to ask about, because no good answer could come.
    ///
    /// - Returns: whether there were any.
    func forgetDryCauses(at now: Timestamp) async throws -> Bool

    /// Brings forward checks that are due later than the interval allows, because the interval was longer before. It spreads them over the
    /// interval, and none comes sooner after Apple's last answer than the interval allows.
    func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws

    /// Notes that a copy of the database was made.
    func noteBackup(at now: Timestamp) async throws

    /// Since when a reader has kept erased data readable in the log; nil if none does.
    var logPinnedSince: Timestamp? { get async throws }
}

/// Stores the apps of a configuration, and keeps the secrets of a database.
package protocol Registrar: Sendable {
    /// Stores the configured apps.
    ///
    /// - Throws: `StoreOpenError` if a client would move to another app.
    func register(_ apps: [AppClients]) throws

    /// Finds what `register` would refuse. Changes nothing.
    func check(_ apps: [AppClients]) throws(StoreOpenError)

    /// Renames an app in every table that holds its name. On a file, the caller holds the lock. On a server, a replica that starts
    /// meanwhile waits.
    ///
    /// - Throws: `AppRenameError`; nothing has changed then.
    func renameApp(_ old: String, to new: String) async throws

    /// Lets the breakers forget canaries and clients that the configuration no longer names, and takes notifications for clients that it
    /// names again out of the quarantine.
    func adopt(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws

    /// A random key that the database keeps sealed. It is made once.
    ///
    /// - Parameter make: seals a new key if there is none yet.
    /// - Throws: `StoreError.damaged` if the key is missing and there are credentials already.
    func sealedSecret(named name: String, make: @Sendable () throws -> [UInt8]) throws -> [UInt8]

    /// The sealed key of that name; nil if none was made yet.
    func sealedSecret(named name: String) throws -> [UInt8]?
}

package enum AppRenameError: Error, Sendable, Equatable {
    case unknown(String, known: [String])
    case taken(String)
    /// A replica works on the database.
    case inUse
}
