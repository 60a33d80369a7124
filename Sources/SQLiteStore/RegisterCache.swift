// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// The users that one transaction touches: each is read once and written once, however many facts a batch holds of them.
struct RegisterCache {
    struct Key: Hashable {
        var app: ClientDirectory.App
        var userID: String

        /// By bytes, as tables compare: to `String`, two spellings of one character are equal.
        static func == (left: Key, right: Key) -> Bool {
            left.app == right.app && left.userID.utf8.elementsEqual(right.userID.utf8)
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(app.id)
            var userID = userID
            userID.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    /// One user of one app, with their credential at each client.
    struct User {
        fileprivate(set) var stored: AppUser?
        var registers: AppUser
        fileprivate(set) var storedRows: [Int64: CredentialRow] = [:]
        var rows: [Int64: CredentialRow] = [:]
        /// What the table showed before the fact at hand; a client without a row is absent.
        var published: [Int64: PublishedCredential] = [:]

        /// At how many clients.
        var unverified: Int { rows.values.count(where: \.isUnverified) }

        /// At how many clients a rejection waits to be believed.
        var pending: Int { rows.values.count { $0.pending != nil } }
    }

    private var users: [Key: User] = [:]
    private let directory: ClientDirectory

    init(directory: ClientDirectory) {
        self.directory = directory
    }

    /// Hands out a user's registers for change.
    mutating func withUser<Result>(_ key: Key, in db: Database, _ body: (inout User) throws -> Result) throws -> Result {
        if users[key] == nil { users[key] = try load(key, in: db) }
        return try body(&users[key]!)
    }

    private func load(_ key: Key, in db: Database) throws -> User {
        let stored = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(AppUser.columns) FROM user_event WHERE user_id = ? AND app = ?"),
            arguments: [key.userID, key.app.id]
        ).map(AppUser.init)
        var user = User(stored: stored, registers: stored ?? AppUser())
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: "SELECT client, app, \(CredentialRow.columns) FROM credential WHERE user_id = ?"),
            arguments: [key.userID]
        )
        while let row = try rows.next() {
            guard row[1] == key.app.id else { continue }
            let client: Int64 = row[0]
            let credential = CredentialRow(row, from: 2)
            user.storedRows[client] = credential
            user.rows[client] = credential
            user.published[client] = PublishedCredential(credential.credential, under: user.registers)
        }
        return user
    }

    /// Writes what has changed, in the order of the table, so that neighbouring rows share their pages.
    ///
    /// - Returns: whether a sealed token was erased.
    func save(in db: Database) throws -> Bool {
        var erased = false
        for (key, user) in users.sorted(by: { $0.key.userID < $1.key.userID }) {
            if user.registers != user.stored ?? AppUser() {
                try user.registers.save(user: key.userID, app: key.app, in: db)
            }
            for (clientID, row) in user.rows where row != user.storedRows[clientID] || isStandingStale(clientID, of: user) {
                guard let client = directory.clientsByID[clientID] else { continue }
                let standing = row.credential.standing(under: user.registers)
                try row.save(user: key.userID, client: client, standing: standing, in: db)
                if let old = user.storedRows[clientID]?.credential.token?.sealed, old != row.credential.token?.sealed { erased = true }
            }
        }
        return erased
    }

    /// A change of the user's registers alone may change what a credential comes to.
    private func isStandingStale(_ client: Int64, of user: User) -> Bool {
        guard let stored = user.storedRows[client] else { return true }
        return stored.credential.standing(under: user.stored ?? AppUser())
            != user.rows[client]?.credential.standing(under: user.registers)
    }
}
