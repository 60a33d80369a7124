// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

/// Tries what every insert of a backend begins with: takes the write lock, and writes nothing. While a forgotten transaction in somebody's
/// shell keeps every backend out, the queues are empty and siwatch itself has nothing to write.
package final class InsertProbe: Sendable {
    /// The busy timeout that docs/backend-sqlite.md asks of backends.
    package static let patience = Duration.seconds(5)
    /// How an obstacle begins that is siwatch's own. No process is to be ended for it.
    package static let ownSlowness = "siwatch's own commits take"

    private let path: String
    private let patience: Duration
    private let connection: DatabaseQueue

    /// - Parameter path: of a database that a siwatch has open, because the last connection that closes would write the log back.
    package init(path: String, patience: Duration = patience) throws {
        self.path = path
        self.patience = patience
        connection = try translatingErrors { try Self.connection(to: path, patience: patience) }
    }

    /// Like a backend's.
    private static func connection(to path: String, patience: Duration = patience) throws -> DatabaseQueue {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(patience / .seconds(1))
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Inserts a row into each queue as a backend of this user does, and takes all of them back.
    package static func tryInserts(at path: String) throws {
        // GRDB would make a file that is not there.
        guard access(path, F_OK) == 0 else {
            throw StoreError.unavailable("\(path) cannot be reached: \(String(cString: strerror(errno)))")
        }
        try translatingErrors {
            let queue = try connection(to: path)
            try queue.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    try db.execute(
                        sql: """
                            INSERT INTO notification_queue (payload) VALUES ('{}');
                            INSERT INTO grant_queue (client_id, user_id) VALUES ('siwatch.init', 'siwatch.init');
                            INSERT INTO revocation_queue (client_id, user_id) VALUES ('siwatch.init', 'siwatch.init');
                            """
                    )
                    return .rollback
                }
            }
            try queue.close()
        }
    }

    package func obstacle() async throws -> String? {
        if let journal = RollbackJournal.obstacle(at: path) { return journal }
        if let holder = await fileHolder() {
            return "\(holder) keeps the file \(path) locked, so that no new connection can open it\(holder.remedy)"
        }
        do {
            try await connection.writeWithoutTransaction { db in try db.inTransaction(.immediate) { .rollback } }
            return nil
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            let holder = KernelLock.write.holder(ofDatabase: path)
            if holder?.process == getpid() {
                return "\(Self.ownSlowness) longer than \(patience.milliseconds) ms: the disk is slow"
            }
            let name = holder?.description ?? "a process that the kernel does not name"
            return "\(name) has kept the write lock of \(path) for more than \(patience.milliseconds) ms\(holder?.remedy ?? "")"
        } catch let error as DatabaseError {
            throw StoreError(error)
        }
    }

    /// The process that locks the whole file. This process has the file open already, so it would not feel the lock.
    private func fileHolder() async -> LockHolder? {
        guard let holder = KernelLock.file.holder(ofDatabase: path) else { return nil }
        try? await Task.sleep(for: .milliseconds(300))
        return KernelLock.file.holder(ofDatabase: path) == holder ? holder : nil
    }

    package func close() throws { try connection.close() }
}

extension SQLiteStore {
    package func insertObstacle() async throws -> String? { try await insertProbe?.obstacle() }
}

package enum KernelLock: Sendable {
    /// SQLite's lock of the one writer of a database in WAL mode.
    case write
    /// flock(2) on the file beside a database: the lock of the one siwatch that may work on it.
    case siwatch
    /// A lock of the whole file, which keeps new connections out. In WAL mode a program takes it for an instant only, if at all.
    case file

    /// The bytes that SQLite locks in the file: `PENDING_BYTE`, `RESERVED_BYTE` and `SHARED_SIZE` of its os.h.
    private static let fileBytes = 0x4000_0000...0x4000_01ff

    /// Which byte of the shared memory SQLite locks for a writer: `WALINDEX_LOCK_OFFSET` of its wal.c, the first of eight locks.
    private static let writeByte = 120

    /// The process that holds the lock, if the kernel tells it. Asking by fcntl(2) would need a descriptor, and closing that would end all
    /// locks of SQLite in this process.
    package func holder(ofDatabase path: String) -> LockHolder? {
        var status = stat()
        guard stat(path + place.suffix, &status) == 0,
            let locks = try? String(contentsOfFile: "/proc/locks", encoding: .utf8)
        else { return nil }
        // Any program may lock a whole file of its own, on another device.
        let (major, minor) = (status.st_dev >> 8 & 0xfff, status.st_dev & 0xff | status.st_dev >> 12 & 0xfff00)
        let device = self == .file ? [major, minor].map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: ":") : nil
        return holder(ofInode: UInt64(status.st_ino), on: device, in: locks).map(LockHolder.init)
    }

    private var place: (suffix: String, kind: String, bytes: ClosedRange<Int>) {
        switch self {
        case .write: ("-shm", "POSIX", Self.writeByte...Self.writeByte)
        case .siwatch: (".lock", "FLOCK", 0...0)
        case .file: ("", "POSIX", Self.fileBytes)
        }
    }

    /// - Parameter locks: the text of `/proc/locks`: number, kind, mode, access, process, device with inode, first byte, last byte.
    func holder(ofInode inode: UInt64, on device: String? = nil, in locks: String) -> Int32? {
        let (_, kind, bytes) = place
        for line in locks.split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.count == 8, words[1] == kind, words[3] == "WRITE", words[5].split(separator: ":").last == "\(inode)",
                device.map({ words[5].hasPrefix($0 + ":") }) ?? true,
                let first = Int(words[6]), let last = words[7] == "EOF" ? Int.max : Int(words[7]), first <= bytes.upperBound,
                bytes.lowerBound <= last
            else { continue }
            return Int32(words[4])
        }
        return nil
    }
}

package struct LockHolder: Equatable, CustomStringConvertible {
    /// Zero or less for a process of another namespace.
    package var process: Int32

    /// The process in words. Its name may hold any characters.
    package var description: String {
        guard process > 0 else { return "a process outside of this container" }
        let name = (try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8))?.split(separator: "\n").first
        return name.map { "process \(process) (\($0))" } ?? "process \(process)"
    }

    /// Empty if this host cannot end the process.
    package var remedy: String { process > 0 ? "; sudo kill \(process) rolls its transaction back" : "" }
}
