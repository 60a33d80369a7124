// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import GRDB

/// The users that one transaction touches: each is read once and written once, however many facts a batch holds of them.
struct RegisterCache {
    struct Key: Hashable {
        var app: ClientDirectory.App
        var userID: String

        /// By bytes, as tables compare: to `String`, two spellings of one character are equal.
        static func == (left: Key, right: Key) -> Bool {
            left.app.id == right.app.id && left.userID.utf8.elementsEqual(right.userID.utf8)
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(app.id)
            var userID = userID
            userID.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    /// At how many clients something holds that is counted by app.
    struct Tally: Equatable {
        var unverified = 0
        var pending = 0
        var neverAccepted = 0
        var foreign = 0

        static func - (left: Tally, right: Tally) -> Tally {
            Tally(
                unverified: left.unverified - right.unverified,
                pending: left.pending - right.pending,
                neverAccepted: left.neverAccepted - right.neverAccepted,
                foreign: left.foreign - right.foreign
            )
        }

        static func += (left: inout Tally, right: Tally) {
            left.unverified += right.unverified
            left.pending += right.pending
            left.neverAccepted += right.neverAccepted
            left.foreign += right.foreign
        }
    }

    /// One user of one app, with their credential at each client.
    struct User {
        fileprivate let key: Key
        fileprivate let stored: AppUser?
        var registers: AppUser
        /// By client.
        fileprivate(set) var holdings: [Holding] = []

        /// The credential at a client; nil where there is none.
        subscript(client: Int64) -> CredentialRow? {
            holdings.first { $0.client == client }?.row
        }

        mutating func set(_ row: CredentialRow, at client: Int64) {
            if let place = holdings.firstIndex(where: { $0.client == client }) {
                holdings[place].row = row
            } else {
                let place = holdings.firstIndex { $0.client > client } ?? holdings.endIndex
                holdings.insert(Holding(client: client, stored: nil, row: row), at: place)
            }
        }

        var tally: Tally {
            Tally(
                unverified: holdings.count(where: \.row.isUnverified),
                pending: holdings.count { $0.row.pending != nil },
                neverAccepted: holdings.count(where: \.row.isNeverAccepted),
                foreign: holdings.count { $0.row.answer == .anotherUser }
            )
        }

        /// What of the table's view another fact has changed, since the one before: nothing that cannot be used is kept.
        mutating func publish() -> [(client: Int64, old: PublishedCredential?, new: PublishedCredential)] {
            var changes: [(client: Int64, old: PublishedCredential?, new: PublishedCredential)] = []
            for place in holdings.indices {
                holdings[place].row.credential.eraseUnusableToken(under: registers)
                if holdings[place].row.credential.token?.sealed == nil {
                    holdings[place].row.dueAt = nil
                    holdings[place].row.firstCheck = nil
                    holdings[place].row.isUnverified = false
                    holdings[place].row.pending = nil
                    if holdings[place].row.answer == .anotherUser { holdings[place].row.answer = nil }
                }
                holdings[place].row.isNeverAccepted = holdings[place].row.credential.isTokenNeverAccepted(under: registers)
                let (client, old) = (holdings[place].client, holdings[place].published)
                let new = PublishedCredential(holdings[place].row.credential, under: registers)
                guard new != old else { continue }
                holdings[place].published = new
                changes.append((client, old, new))
            }
            return changes
        }
    }

    /// A user's credential at one client.
    struct Holding {
        let client: Int64
        fileprivate let stored: CredentialRow?
        var row: CredentialRow
        /// What the table showed before the fact at hand; nil for a client without a row.
        fileprivate(set) var published: PublishedCredential?
    }

    private var users: [User] = []
    private var places: [Key: Int] = [:]
    private let directory: ClientDirectory
    private let statements: Statements

    private struct Statements {
        let user, credentials, saveUser, saveCredential: PreparedStatement
    }

    init(directory: ClientDirectory, in db: Database) throws {
        self.directory = directory
        statements = Statements(
            user: try PreparedStatement("SELECT \(AppUser.columns) FROM user_event WHERE user_id = ? AND app = ?", in: db),
            credentials: try PreparedStatement(
                "SELECT client, app, \(CredentialRow.columns) FROM credential WHERE user_id = ? ORDER BY client",
                in: db
            ),
            saveUser: try PreparedStatement(AppUser.save, in: db),
            saveCredential: try PreparedStatement(CredentialRow.save, in: db)
        )
    }

    /// Hands out a user's registers for change.
    mutating func withUser<Result>(_ key: Key, _ body: (inout User) throws -> Result) throws -> Result {
        if let place = places[key] { return try body(&users[place]) }
        users.append(try load(key))
        places[key] = users.count - 1
        return try body(&users[users.count - 1])
    }

    private func load(_ key: Key) throws -> User {
        let stored = try statements.user.first(key.userID, key.app.id) { AppUser($0) }
        var user = User(key: key, stored: stored, registers: stored ?? AppUser())
        try statements.credentials.forEachRow(key.userID) { columns in
            guard columns.integer(at: 1) == key.app.id else { return }
            let row = CredentialRow(columns, from: 2)
            let published = PublishedCredential(row.credential, under: user.registers)
            user.holdings.append(Holding(client: columns.integer(at: 0), stored: row, row: row, published: published))
        }
        return user
    }

    /// Writes what has changed, in the order of the table, so that neighbouring rows share their pages.
    ///
    /// - Returns: whether a sealed token or an address was erased.
    func save() throws -> Bool {
        var erased = false
        for place in users.indices.sorted(by: { users[$0].key.userID < users[$1].key.userID }) {
            let user = users[place]
            if user.registers != user.stored ?? AppUser() {
                try user.registers.save(user: user.key.userID, app: user.key.app, by: statements.saveUser)
                if user.registers.mailbox == nil, user.stored?.mailbox != nil { erased = true }
            }
            for holding in user.holdings where holding.row != holding.stored || holding.isStandingStale(of: user) {
                guard let client = directory.clientsByID[holding.client] else { continue }
                let standing = holding.row.credential.standing(under: user.registers)
                try holding.row.save(user: user.key.userID, client: client, standing: standing, by: statements.saveCredential)
                if let old = holding.stored?.credential.token?.sealed, old != holding.row.credential.token?.sealed { erased = true }
            }
        }
        return erased
    }
}

extension RegisterCache.Holding {
    /// A change of the user's registers alone may change what a credential comes to.
    fileprivate func isStandingStale(of user: RegisterCache.User) -> Bool {
        guard let stored else { return true }
        return stored.credential.standing(under: user.stored ?? AppUser()) != row.credential.standing(under: user.registers)
    }
}
