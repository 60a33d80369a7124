// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

extension DatabaseLock {
    /// Whether somebody holds the lock of a database right now. Takes nothing and creates nothing.
    static func isHeld(database path: String) -> Bool {
        let descriptor = open(path + ".lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    }

    /// Takes the lock. `siwatch status` holds it for an instant to see whether somebody does, so "no" is asked for again.
    static func patiently(database path: String) throws(DatabaseLockError) -> DatabaseLock {
        for _ in 1...4 {
            do {
                return try DatabaseLock(database: path)
            } catch .held {
                usleep(25_000)
            }
        }
        return try DatabaseLock(database: path)
    }
}
