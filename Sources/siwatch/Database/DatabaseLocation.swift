// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import PostgresStore
import SQLiteStore

/// The database that a configuration names, and how to open it.
enum DatabaseLocation: Sendable {
    /// An SQLite file. Its lock lets only one process work on it at a time.
    case file(DatabaseFile)
    /// A PostgreSQL server. Any number of processes may work on it.
    case server(PostgresAddress)

    /// As reports name it, without a secret.
    var name: String {
        switch self {
        case .file(let file): file.path
        case .server(let address): address.description
        }
    }

    /// Why the database cannot be written, one sentence each. Empty if it can be written, or if only a try would tell.
    ///
    /// - Parameter keyFile: of the sealing keys.
    func obstacles(besideKey keyFile: String) -> [String] {
        guard case .file(let file) = self else { return [] }
        // With a key there may have been a database, and a new one in its place would hide that.
        let isLost = file.isEmptyFile && FileManager.default.fileExists(atPath: keyFile)
        let loss = "\(file.path) is empty, and the sealing key is there: restore a backup, or remove the file if there never was a database"
        return (file.obstacles + (isLost ? [loss] : [])).map { "\(place): \($0)" }
    }

    /// Why backends cannot insert, with harmless characters only; nil if they can.
    ///
    /// - Parameter store: this database, open.
    /// - Throws: `StoreError` if the database does not answer.
    func insertObstacle(in store: any CredentialStore) async throws -> String? {
        if case .file(let file) = self, let obstacle = Self.insertObstacle(at: file.path) { return obstacle }
        return try await store.insertObstacle()?.printable
    }

    /// Why backends can insert only while siwatch runs; nil if nothing is wrong.
    var insertWeakness: String? {
        if case .file(let file) = self { GroupAccess(path: file.path).weakness } else { nil }
    }

    /// What the system tells of a file without opening it: closing it would end all locks of SQLite in this process.
    private static func insertObstacle(at path: String) -> String? {
        if let obstacle = FileObstacles(path: path, isEmpty: false, isOurs: true).all.first { return obstacle }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        if DiskSpace(at: folder)?.isFull == true { return "\(StoreError.fullDisk) \(path) is full" }
        return GroupAccess(path: path).obstacle
    }

    /// Whether the database exists and belongs to siwatch.
    ///
    /// - Throws: if it does not belong to siwatch, or needs a migration first.
    func exists() throws -> Bool {
        switch self {
        case .file(let file): try file.exists(isInUse: isLocked)
        case .server(let address): try PostgresStore.exists(at: address)
        }
    }

    /// What `open(retention:)` would do to the tables.
    ///
    /// - Throws: if the database does not belong to siwatch.
    func migrationPlan() throws -> MigrationPlan {
        switch self {
        case .file(let file): try file.migrationPlan(isInUse: isLocked)
        case .server(let address): try PostgresStore.migrationPlan(of: address)
        }
    }

    /// How to use the script of a migration, as its comment.
    var migrationNote: String {
        switch self {
        case .file: "-- To read, not to run: siwatch migrate also marks the file as its own."
        case .server: "-- All steps are one transaction (psql -1). The user of database.url runs it, and owns the tables."
        }
    }

    /// Whether the database holds sealed data. Then a lost key file must not be replaced by a new one.
    func hasSealedRows() throws -> Bool {
        guard try migrationPlan().found != nil else { return false }
        switch self {
        case .file(let file): return try SQLiteStore.hasSealedRows(in: file)
        case .server(let address): return try PostgresStore.hasSealedRows(in: address)
        }
    }

    /// Takes the right to work alone on the database. On a server there is no such right, because rows and lanes are claimed one by one.
    func lock() throws(DatabaseLockError) -> DatabaseLock? {
        switch self {
        case .file(let file): try DatabaseLock.retrying(database: file.path)
        case .server: nil
        }
    }

    /// Opens the database to work on it, and brings its schema up to date. The caller must hold the lock.
    func open(retention: Retention) throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.open(file, retention: retention)
        case .server(let address): try PostgresStore.open(address, retention: retention)
        }
    }

    /// Opens the database for reading, beside a daemon that may be at work.
    func openForReading() throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.openForReading(file, isInUse: isLocked)
        case .server(let address): try PostgresStore.openForReading(address)
        }
    }

    /// Opens the database to append rows as a backend does, beside a daemon that may be at work.
    func openBeside() throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.openBeside(file)
        case .server(let address): try PostgresStore.openBeside(address)
        }
    }

    /// Inserts into each queue of a file as a backend of this user does, and takes all of it back.
    ///
    /// - Throws: `StoreError` if such a backend could not insert.
    static func tryInserts(at path: String) throws {
        try SQLiteStore.tryInserts(at: path)
    }

    /// Opens a server over connections of their own for what comes in over HTTP, so that it waits for no settlement. Nil for a file,
    /// which has one writer at a time in any case.
    func openForDoor() throws -> (any CredentialStore)? {
        switch self {
        case .file: nil
        // Twice that is the door's patience, and a request may come just after another. So the door can say who holds the lock.
        case .server(let address): try PostgresStore.openBeside(address, longestLockWait: .seconds(2))
        }
    }
}

extension Configuration {
    /// - Throws: if the password file cannot be read.
    func namedDatabase() throws(CommandFailure) -> DatabaseLocation {
        guard let url = database.url else { return .file(DatabaseFile(following: database.path)) }
        _ = try readPassword()
        // The password is read again for each connection, so that a new password needs no restart.
        return .server(PostgresAddress(url, schema: database.schema) { try readPassword() })
    }

    /// The database, after a check that it exists and belongs to siwatch.
    func existingDatabase() throws(CommandFailure) -> DatabaseLocation {
        let database = try namedDatabase()
        do {
            if try database.exists() { return database }
        } catch {
            throw CommandFailure(database: error)
        }
        // With a key there may have been a database, and an empty one in its place would hide that.
        let wasThere = FileManager.default.fileExists(atPath: encryption.keyFile)
        let creation = "siwatch migrate creates it"
        let advice =
            wasThere
            ? "; if it was moved or deleted, put it back or restore a backup; if it never was there, \(creation)" : " yet; \(creation)"
        throw .unusable(["\(database.place): \(database.name) is not there\(advice)"])
    }

    /// Opens the database for reading, beside a daemon that may be at work.
    ///
    /// - Throws: `CommandFailure`, or `CancellationError`.
    func withStore<Value>(_ body: (any CredentialStore) async throws -> Value) async throws -> Value {
        do {
            return try await existingDatabase().openForReading().closing(after: body)
        } catch let error where !(error is CancellationError) {
            throw CommandFailure(database: error)
        }
    }

    private func readPassword() throws(CommandFailure) -> Secret? {
        guard let path = database.passwordFile else { return nil }
        do {
            let password = try TextFile.read(path, limit: 4096, isSecret: true)
            guard !password.isEmpty else { throw CommandFailure.unusable(["database.password_file: \(path) is empty"]) }
            guard !password.contains(where: \.isNewline) else {
                throw CommandFailure.unusable(["database.password_file: \(path) has several lines, and a password is one"])
            }
            return Secret(password)
        } catch let error as TextFileError {
            throw .unusable(["database.password_file: \(path) \(error)"])
        } catch {
            throw CommandFailure(database: error)
        }
    }
}

extension DatabaseLocation {
    /// The key of the configuration that names the database.
    var place: String {
        switch self {
        case .file: "database.path"
        case .server: "database.url"
        }
    }

    /// The program that keeps the database, with its version.
    func program(of store: any CredentialStore) async throws -> String {
        switch self {
        case .file: "SQLite \(try await store.version)"
        case .server: "PostgreSQL \(try await store.version)"
        }
    }

    /// The libraries that siwatch keeps its data with.
    static var libraries: String { "SQLite \(SQLiteLibrary.version), libpq \(PostgresLibrary.version ?? "none")" }
}

// MARK: The command line

extension DatabaseLocation {
    /// Whether a text is the address of a server: a URL, or text that begins with a keyword of libpq's, as in `host=…`. Otherwise it is a
    /// file.
    static func isAddress(_ text: String) -> Bool {
        ["postgresql://", "postgres://"].contains(where: text.hasPrefix) || text.prefixMatch(of: /[a-z_]+=/) != nil
    }

    init(_ text: String, schema: String) {
        self =
            Self.isAddress(text)
            ? .server(PostgresAddress(text, schema: schema)) : .file(DatabaseFile(following: URL(filePath: text).standardizedFileURL.path))
    }

    /// Whether libpq can read the address. A file has none.
    var isUnderstood: Bool {
        switch self {
        case .file: true
        case .server(let address): address.isUnderstood
        }
    }
}

// MARK: Status and check

extension DatabaseLocation {
    /// Whether a siwatch works alone on the database. On a server none does.
    var isLocked: Bool {
        switch self {
        case .file(let file): DatabaseLock.isHeld(database: file.path)
        case .server: false
        }
    }

    /// The process that works alone on the database, with harmless characters only. Nil if none does, or if the kernel does not tell.
    var lockHolder: String? {
        switch self {
        case .file(let file): KernelLock.siwatch.holder(ofDatabase: file.path)?.description.printable
        case .server: nil
        }
    }

    /// The room on the disk of the database. A server does not tell.
    var space: DiskSpace? {
        guard case .file(let file) = self else { return nil }
        return DiskSpace(at: URL(filePath: file.path).deletingLastPathComponent().path)
    }

    /// When a siwatch that works alone on the database began. On a server none does.
    var lockedAt: Timestamp? {
        switch self {
        case .file(let file): DatabaseLock.lastTaken(database: file.path)
        case .server: nil
        }
    }

    /// Whether this SQLite can lose committed pages when other processes checkpoint.
    var hasWALResetBug: Bool {
        switch self {
        case .file: SQLiteLibrary.hasWALResetBug
        case .server: false
        }
    }

    /// That somebody has cut off the memory that the processes on a file share; nil if not. SQLite makes it of blocks of 32 KB.
    var cutMemory: String? {
        var status = stat()
        guard case .file(let file) = self, lstat("\(file.path)-shm", &status) == 0, status.st_size == 0 || status.st_size % 32_768 != 0
        else { return nil }
        return
            "\(file.path)-shm was cut off, to \(Int(status.st_size).counted("byte")), by a user who may write it: a siwatch at work ends "
            + "by SIGBUS, and its next start mends the file"
    }

    /// Whether backends may open the file: none comes over HTTP, or one is in the file's group.
    func isOpenedByBackends(with http: Configuration.HTTP) -> Bool {
        guard case .file(let file) = self else { return false }
        return http.clients.isEmpty || GroupAccess(path: file.path).hasMembers
    }

    /// The message for a database that does not exist.
    var absence: String {
        if case .file(let file) = self, file.isEmptyFile {
            return "an empty file, which some program left; siwatch migrate creates the database in its place"
        }
        return "not there yet; siwatch migrate creates it"
    }

    /// Examines a server without changing anything. A file has only its obstacles.
    ///
    /// - Returns: what keeps siwatch from working there, and what an operator should know, one sentence each.
    func examineServer(clockSkew: Duration) throws -> (obstacles: [String], warnings: [String]) {
        guard case .server(let address) = self else { return ([], []) }
        let found = try PostgresStore.examine(address, clock: .system, clockSkew: clockSkew)
        return (found.obstacles.map { "\(place): \($0)" }, found.warnings.map { "\(place): \($0)" })
    }

    /// The owner of the file, if root runs this in that user's place. Root's rights say nothing of the owner's.
    var userInPlaceOfRoot: String? {
        guard case .file(let file) = self else { return nil }
        return FileObstacles(file).userInPlaceOfRoot
    }
}

extension DatabaseFile {
    /// Why the file cannot be written: one sentence each, with the command that corrects it. Empty if it can be written.
    var obstacles: [String] { FileObstacles(self).all }
}

extension FileObstacles {
    fileprivate init(_ file: DatabaseFile) {
        self.init(path: file.path, isEmpty: file.isEmptyFile, isOurs: file.hasOurMark)
    }
}

/// Why siwatch cannot use a file.
typealias UnusableFile = DatabaseFile.Unusable

extension UnusableFile {
    var isUnreadable: Bool {
        if case .unreadable = self { true } else { false }
    }
}

// MARK: The URL of a server

extension Configuration.Database {
    /// Why a text cannot be the URL of a server, as the end of a sentence.
    static func problem(ofURL text: String) -> String? { PostgresAddress.problem(of: text) }

    /// An `sslmode` of the URL that does not stop eavesdroppers and false servers. Nil if there is no such danger.
    var unsafeMode: String? { url.flatMap { PostgresAddress($0).unsafeMode } }
}

extension CredentialStore {
    /// Closes every connection after `body`, even if `body` throws.
    func closing<Value>(after body: (any CredentialStore) async throws -> Value) async throws -> Value {
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(self))
        } catch {
            result = .failure(error)
        }
        try? await close()
        return try result.get()
    }
}
