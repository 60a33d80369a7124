// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import CredentialTables
import Foundation
import GRDBSQLite

/// A database file before siwatch opens it for writing.
package struct DatabaseFile: Sendable {
    package enum Contents: Sendable, Equatable {
        /// No database: no file, an empty file, or a file whose creation was cut short.
        case none
        /// siwatch made the file, and this program can use or migrate its schema.
        case siwatch(version: Int)
    }

    /// Why siwatch cannot use a file, in words for people.
    package enum Unusable: Error, Sendable, Equatable, CustomStringConvertible {
        case foreign(String)
        case damaged(String)
        case newer(version: Int, known: Int)
        case outdated(path: String, version: Int)
        case unreadable(String)
        case departed(path: String, Departure)

        package var description: String {
            switch self {
            case .foreign(let reason), .damaged(let reason), .unreadable(let reason): reason
            case .newer(let version, let known):
                "the database has schema version \(version), made by a newer siwatch; this one knows \(known)"
            case .outdated(let path, let version): "\(path) has schema version \(version); siwatch migrate brings it up to date"
            case .departed(let path, let departure): departure.sentence(of: path)
            }
        }
    }

    package var path: String
    /// The steps that this program knows, newest last.
    let steps: [SchemaStep]

    /// - Parameter nextSteps: steps of a later release, for tests.
    package init(path: String, nextSteps: [SchemaStep] = []) { self.init(path: path, steps: FileSchema.steps + nextSteps) }

    init(path: String, steps: [SchemaStep]) {
        // Every way to a file leads through here.
        RollbackJournal.ignore()
        self.path = path
        self.steps = steps
    }

    /// Follows the symbolic links of a name, as SQLite does, so that one file has one lock. Does not follow a link that neither root nor
    /// this user has made: a member of the group may have put it into the folder.
    package init(following name: String) { self.init(path: Self.following(name)) }

    private static func following(_ name: String) -> String {
        var path = name
        // The file may not exist yet, even at the end of a link.
        for _ in 1...8 {
            let url = URL(filePath: path)
            guard let folder = resolved(url.deletingLastPathComponent().path) else { return path }
            path = "\(folder == "/" ? "" : folder)/\(url.lastPathComponent)"
            var status = stat()
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFLNK, [0, geteuid()].contains(status.st_uid),
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
            else { return path }
            path = target.hasPrefix("/") ? target : "\(folder)/\(target)"
        }
        return path
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// Looks at the file without writing a byte: at its header, and if siwatch made that, at the schema. Opening a pool on a foreign file
    /// would write to it. If a daemon may be writing the file right now, only SQLite's own reading is safe.
    package func inspect(isInUse: Bool = false) throws(Unusable) -> Contents {
        guard !isEmptyFile, let header = try header() else { return .none }
        if header.isEmpty { return .none }
        guard header.count >= 100, header.starts(with: Data("SQLite format 3\0".utf8)) else {
            throw .foreign("\(path) is not an SQLite database")
        }
        let applicationID = Int32(bitPattern: header.bigEndian32(at: 68))
        // siwatch marks the header before there is a log. So the header tells whose the file is, whatever its log holds.
        guard applicationID == FileSchema.applicationID else {
            throw .foreign(
                isBare(header)
                    ? "\(path) is an SQLite database without tables, as programs leave one that open it before siwatch migrate and set "
                        + "journal_mode: stop them, remove it, and run siwatch migrate" : "\(path) is an SQLite database of another program"
            )
        }
        // In WAL mode, 2, there never is one. A copy has another mode until siwatch opens it.
        if header[18] != 2, RollbackJournal.obstacle(at: path) != nil {
            throw .unreadable(
                "\(path)\(RollbackJournal.suffix) is there: a program that wrote the file was killed, or somebody has put it there; restore "
                    + "the file again"
            )
        }
        try refuseNewer(Int(header.bigEndian32(at: 60)))
        let version = try schemaVersion(isInUse: isInUse)
        try refuseNewer(version)
        return version == 0 ? .none : .siwatch(version: version)
    }

    /// The first bytes of the file. Nil if there is no file. Neither follows a link nor waits for the writer of a pipe. SQLite opens and
    /// closes the file, because a descriptor of our own would drop all locks of this process as it closes:
    /// https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    private func header() throws(Unusable) -> Data? {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            let code = errno
            if code == ENOENT { return nil }
            throw .unreadable("\(path) cannot be opened for reading: \(String(cString: strerror(code)))")
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFLNK: throw .unreadable("\(path) is a symbolic link of another user, which is not followed")
        default: throw .unreadable("\(path) is no regular file")
        }
        var connection: OpaquePointer?
        defer { sqlite3_close_v2(connection) }
        guard sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, nil) == SQLITE_OK else {
            let code = sqlite3_system_errno(connection)
            let reason = code == 0 ? sqlite3_errmsg(connection).map { String(cString: $0) } : String(cString: strerror(code))
            throw .unreadable("\(path) cannot be opened for reading: \(reason ?? "")")
        }
        var file: UnsafeMutablePointer<sqlite3_file>?
        sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file)
        var bytes = Data(count: min(108, Int(status.st_size)))
        let (count, read) = (CInt(bytes.count), file?.pointee.pMethods?.pointee.xRead)
        let result = bytes.withUnsafeMutableBytes { read?(file, $0.baseAddress, count, 0) ?? SQLITE_IOERR }
        guard result == SQLITE_OK || count == 0 else {
            throw .unreadable("\(path) cannot be read: \(String(cString: sqlite3_errstr(result)))")
        }
        return bytes
    }

    package var hasOurMark: Bool {
        guard let header = (try? header()).flatMap(\.self), header.count >= 72 else { return false }
        return Int32(bitPattern: header.bigEndian32(at: 68)) == FileSchema.applicationID
    }

    /// Whether the path is a regular file of no bytes. SQLite leaves such a file when a program opens a missing name and writes nothing.
    package var isEmptyFile: Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_size == 0
    }

    /// Whether the schema has no entry: its first page has none, and no log can hold one.
    private func isBare(_ header: Data) -> Bool {
        header.count == 108 && [UInt8](header[100...104]) == [13, 0, 0, 0, 0] && !hasLog
    }

    var hasLog: Bool {
        let size = try? FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int
        return size ?? 0 > 0
    }

    private func refuseNewer(_ version: Int) throws(Unusable) {
        guard version <= steps.newest else { throw .newer(version: version, known: steps.newest) }
    }

    /// Reads every page of a file that nobody writes. Returns the first problem in SQLite's words; nil if the file is whole.
    func firstDamage() throws(Unusable) -> String? {
        let connection = try reader(isImmutable: true)
        defer { sqlite3_close_v2(connection) }
        let found = try rows(of: "PRAGMA integrity_check(1)", on: connection).first?.first
        return found == "ok" ? nil : found ?? ""
    }

    /// The caller closes the connection.
    func reader(isImmutable: Bool) throws(Unusable) -> OpaquePointer? {
        var components = URLComponents()
        components.scheme = "file"
        components.path = URL(filePath: path).path
        components.query = isImmutable ? "immutable=1" : nil
        var connection: OpaquePointer?
        guard sqlite3_open_v2(components.string ?? path, &connection, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nil) == SQLITE_OK else {
            defer { sqlite3_close_v2(connection) }
            throw unusable(connection)
        }
        sqlite3_busy_timeout(connection, 5000)
        return connection
    }

    func rows(of sql: String, on connection: OpaquePointer?) throws(Unusable) -> [[String]] {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK else { throw unusable(connection) }
        var rows: [[String]] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                let columns = 0..<sqlite3_column_count(statement)
                rows.append(columns.map { sqlite3_column_text(statement, $0).map { String(cString: $0) } ?? "" })
            case SQLITE_DONE: return rows
            default: throw unusable(connection)
            }
        }
    }

    private func unusable(_ connection: OpaquePointer?) -> Unusable {
        let reason = String(cString: sqlite3_errmsg(connection))
        return switch sqlite3_errcode(connection) & 0xff {
        case SQLITE_CORRUPT, SQLITE_NOTADB: .damaged("\(path) is damaged: \(reason)")
        default: .unreadable("\(path) cannot be read: \(reason)")
        }
    }
}

extension Data {
    fileprivate func bigEndian32(at offset: Int) -> UInt32 {
        self[startIndex + offset..<startIndex + offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
