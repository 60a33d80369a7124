// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import Foundation
internal import GRDB

/// A database file before anything opens it for writing.
package struct DatabaseFile: Sendable {
    package enum Contents: Sendable, Equatable {
        /// Nothing there, or an empty file.
        case none
        /// Made by siwatch, with a schema that this one can use or migrate.
        case siwatch(version: Int32)
    }

    package enum Unusable: Error, Sendable, Equatable {
        /// A file that is not a siwatch database.
        case foreign(String)
        case damaged(String)
        /// Its schema is newer than this program.
        case newer(version: Int32)
        case unreadable(String)
    }

    package var path: String

    package init(path: String) {
        self.path = path
    }

    /// Looks without writing a byte: the header by plain reading, then, where that is ours, the schema over a read-only connection
    /// that is closed again. Opening a pool on a foreign file would already write to it.
    package func inspect() throws(Unusable) -> Contents {
        guard FileManager.default.fileExists(atPath: path) else { return .none }
        guard let handle = FileHandle(forReadingAtPath: path) else {
            throw .unreadable("\(path) cannot be opened for reading")
        }
        let header: Data
        do {
            header = try handle.read(upToCount: 100) ?? Data()
            try handle.close()
        } catch {
            throw .unreadable("\(path) cannot be read: \(error.localizedDescription)")
        }
        if header.isEmpty { return .none }
        guard header.count == 100, header.starts(with: Data("SQLite format 3\0".utf8)) else {
            throw .foreign("\(path) is not an SQLite database")
        }
        let applicationID = Int32(bitPattern: header.bigEndian32(at: 68))
        let version = Int32(bitPattern: header.bigEndian32(at: 60))
        // Our file is always checkpointed after a migration, so its header tells the truth whatever its log holds.
        guard applicationID == Schema.applicationID else {
            throw .foreign("\(path) is an SQLite database of another program")
        }
        guard version <= Schema.version else { throw .newer(version: version) }
        try readSchema()
        return .siwatch(version: version)
    }

    private func readSchema() throws(Unusable) {
        do {
            let queue = try DatabaseQueue(path: path, configuration: .readOnly)
            let missing = try queue.read { db in
                try ["notification_queue", "grant_queue", "credential", "user_event"].filter { try !db.tableExists($0) }
            }
            try queue.close()
            guard missing.isEmpty else { throw Unusable.damaged("\(path) lacks the table \(missing[0])") }
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: throw .damaged("\(path) is damaged: \(error.message ?? "")")
            default: throw .unreadable("\(path) cannot be opened: \(error.message ?? "")")
            }
        } catch let error as Unusable {
            throw error
        } catch {
            throw .unreadable("\(path) cannot be opened: \(error)")
        }
    }

    /// Creates the file so that its group may write it: SQLite itself would leave the group out, and the log beside it inherits the mode.
    func createIfMissing() throws {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o660)
        // The mode is meant, whatever the umask of the shell in which an operator runs `migrate`.
        guard descriptor >= 0, fchmod(descriptor, 0o660) == 0 else {
            throw StoreOpenError("\(path) cannot be created: \(String(cString: strerror(errno)))")
        }
        close(descriptor)
    }
}

extension Data {
    fileprivate func bigEndian32(at offset: Int) -> UInt32 {
        self[startIndex + offset..<startIndex + offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}

/// Why a database cannot be used, as a sentence for the operator.
package struct StoreOpenError: Error, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
