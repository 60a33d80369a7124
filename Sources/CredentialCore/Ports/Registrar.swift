// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
