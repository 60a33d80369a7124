// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Takes in what a configuration says, and keeps the secrets that belong to a database.
package protocol Registrar: Sendable {
    /// Takes the configured apps in.
    ///
    /// - Throws: `StoreOpenError` where a client would change hands.
    func register(_ apps: [AppClients]) throws

    /// Finds what `register` would refuse, and changes nothing.
    func check(_ apps: [AppClients]) throws(StoreOpenError)

    /// Gives an app another name, in every table that holds it. The caller holds the lock on a file; on a server, a replica that starts
    /// meanwhile waits.
    ///
    /// - Throws: `AppRenameError`, and nothing has changed then.
    func renameApp(_ old: String, to new: String) async throws

    /// Lets the breakers forget the canaries and clients that the configuration names no more.
    func keepInBreakers(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws

    /// A random key that the database keeps sealed, made once.
    ///
    /// - Parameter make: seals a new key where there is none yet.
    func sealedSecret(named name: String, make: @Sendable () throws -> [UInt8]) throws -> [UInt8]

    /// The key of that name as it is kept; nil where none was made yet.
    func sealedSecret(named name: String) throws -> [UInt8]?
}

/// Why an app keeps its name.
package enum AppRenameError: Error, Sendable, Equatable {
    case unknown(String, known: [String])
    case taken(String)
    /// A replica is at work on the database.
    case inUse
}
