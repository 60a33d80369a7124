// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// The right to be the only siwatch on a database file.
///
/// The lock is `flock` on `<database>.lock`, never on the database, because opening and closing the database without SQLite would drop
/// SQLite's own locks. The kernel releases the lock when the process ends, however it ends, so a lock is never stale. The lock file stays,
/// because removing it would let two processes lock two files of one name.
struct DatabaseLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock of a database, at once or not at all. A new lock file gets mode 0660 whatever the umask, so that the group that may
    /// write the database may take its lock too. The path has no symbolic links.
    init(database path: String) throws(DatabaseLockError) {
        if let error = DatabaseLockError.links(to: path) { throw error }
        let file = path + ".lock"
        let options = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
        var descriptor = open(file, options | O_EXCL, 0o660)
        // A member of the group may have put a hard link to another file there, so the mode of an existing file stays.
        if descriptor >= 0 { fchmod(descriptor, 0o660) } else { descriptor = open(file, options, 0o660) }
        guard descriptor >= 0 else { throw .unavailable(file: file, reason: systemError()) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            close(descriptor)
            throw code == EWOULDBLOCK ? .held(database: path) : .unavailable(file: file, reason: systemError(code))
        }
        self.descriptor = descriptor
        // Says since when it is held.
        futimens(descriptor, nil)
    }

    func release() {
        // Closing alone would wait for a child process that is between fork and exec and still holds a copy.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// Whether any process holds the lock of a database. Takes nothing and creates nothing.
    static func isHeld(database path: String) -> Bool {
        let descriptor = open(path + ".lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    }

    static func lastWritten(_ path: String) -> Timestamp? {
        guard let status = stat(notFollowing: path) else { return nil }
        return Timestamp(milliseconds: Int64(status.st_mtim.tv_sec) * 1000 + Int64(status.st_mtim.tv_nsec) / 1_000_000)
    }

    /// Takes the lock. Tries again when it is held, because `siwatch status` holds it for an instant to see whether a siwatch runs.
    static func retrying(database path: String) throws(DatabaseLockError) -> DatabaseLock {
        for _ in 1...4 {
            do { return try DatabaseLock(database: path) } catch .held { usleep(25_000) }
        }
        return try DatabaseLock(database: path)
    }
}

enum DatabaseLockError: Error, Equatable, CustomStringConvertible {
    case held(database: String)
    /// The lock file cannot be created or locked, with the system's text. Exit code 78.
    case unavailable(file: String, reason: String)
    /// Hard links. The lock beside one name does not stop a process that uses another, and SQLite keeps a log for each name. Exit code 78.
    case severalNames(database: String, count: Int)

    static func links(to path: String) -> DatabaseLockError? {
        guard let status = stat(at: path), status.isRegularFile, status.st_nlink > 1 else { return nil }
        return .severalNames(database: path, count: Int(status.st_nlink))
    }

    var description: String {
        switch self {
        case .held(let database): "another siwatch is at work on \(database)"
        case .unavailable(let file, let reason): "\(file) cannot be locked: \(reason)"
        case .severalNames(let database, let count):
            """
            \(database) has \(count) names (hard links): each would have a lock and a log of its own, which damages a database, or it is \
            another program's file; sudo find / -xdev -samefile \(database.shellQuoted) lists the names, stop what uses them and keep one
            """
        }
    }
}
