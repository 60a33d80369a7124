// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

struct FileIdentity: Sendable, Equatable {
    private let device: UInt64
    private let inode: UInt64

    /// - Throws: `POSIXError`.
    init(at path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }
}

/// The files that a siwatch has open while it works on a database. The members of its group can remove each.
struct OpenFiles: Sendable, Equatable {
    /// The log and the shared memory that every connection must share, and the lock that only one siwatch holds.
    private static let suffixes = ["-wal", "-shm", ".lock"]

    let path: String
    let database: FileIdentity
    private let others: [String: FileIdentity]

    /// - Throws: `POSIXError` if the database is not there. Of the others, only those that are there count.
    init(of path: String) throws {
        self.path = path
        database = try FileIdentity(at: path)
        others = Self.suffixes.reduce(into: [:]) { $0[$1] = try? FileIdentity(at: path + $1) }
    }

    /// The name of the first file beside the database that was removed or replaced since.
    var displaced: String? {
        Self.suffixes.first { suffix in
            guard let identity = others[suffix] else { return false }
            do {
                return try FileIdentity(at: path + suffix) != identity
            } catch POSIXError.ENOENT {
                return true
            } catch {
                // A failed `stat` proves nothing, here and below.
                return false
            }
        }.map { path + $0 }
    }

    /// Renames a log that is not ours.
    func setAside() throws {
        let log = path + "-wal"
        guard let ours = others["-wal"], let found = try? FileIdentity(at: log), found != ours else { return }
        try Self.displace(log)
    }

    static func displace(_ log: String) throws {
        try FileManager.default.moveItem(atPath: log, toPath: "\(log).displaced-\(Int(Date.now.timeIntervalSince1970))")
    }
}

extension SQLiteStore {
    /// A sentence if another file now stands at the path that opened the file, by a link perhaps; nil if the open file does.
    package func displacement(from path: String) -> String? {
        guard let files else { return nil }
        do {
            guard try FileIdentity(at: path) == files.database else { return "\(path) is not the file any more that siwatch has open" }
            guard let other = files.displaced else { return nil }
            return "\(other) was removed or replaced while siwatch has it open: backends and siwatch no longer share it"
        } catch POSIXError.ENOENT, POSIXError.ENOTDIR {
            return "\(path) is gone, and siwatch has its file still open"
        } catch {
            return nil
        }
    }
}
