// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The right to be the only siwatch on a database file.
///
/// It is `flock` on `<database>.lock` and never on the database: opening and closing that file by other means than SQLite would drop
/// SQLite's own locks. The kernel lets go of it when the process ends, however it ends, so a lock is never stale; the file stays,
/// because removing it would let two processes lock two files of one name.
struct DatabaseLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock of a database, at once or not at all. It is held until `release()` or the end of the process.
    ///
    /// The lock file is made with mode 0660 under the umask, so that the group that may write the database may take its lock too.
    init(database path: String) throws(DatabaseLockError) {
        let file = path + ".lock"
        let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o660)
        guard descriptor >= 0 else { throw .unavailable(file: file, reason: String(cString: strerror(errno))) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            close(descriptor)
            throw code == EWOULDBLOCK ? .held(database: path) : .unavailable(file: file, reason: String(cString: strerror(code)))
        }
        self.descriptor = descriptor
    }

    func release() {
        // Closing alone would wait for a child process that is between fork and exec and still holds a copy.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}

enum DatabaseLockError: Error, Equatable {
    /// Exit code 69.
    case held(database: String)
    /// The lock file cannot be made or locked, with the system's words. Exit code 78.
    case unavailable(file: String, reason: String)
}

extension DatabaseLockError: CustomStringConvertible {
    var description: String {
        switch self {
        case .held(let database): "another siwatch is at work on \(database)"
        case .unavailable(let file, let reason): "\(file) cannot be locked: \(reason)"
        }
    }
}
