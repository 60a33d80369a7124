// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import GRDBSQLite

/// The file of old pages that a database without a log would have beside it. siwatch's never has one, but a member of the group can put one
/// there. SQLite plays it back at the next opening, and then deletes the file that the journal names as its super-journal: any file that
/// the process may delete, such as a key. While a siwatch is at work, no other program can open the database beside it.
enum RollbackJournal {
    static let suffix = "-journal"

    /// From now on, SQLite in this process finds no such file, as if there were none.
    static func ignore() { registration }

    private static let registration: Void = {
        guard let system else { return }
        let blind = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        blind.initialize(to: system.pointee)
        blind.pointee.zName = UnsafePointer(strdup("siwatch"))
        blind.pointee.pNext = nil
        blind.pointee.xAccess = { vfs, name, flags, result in
            guard let name, !String(cString: name).hasSuffix(RollbackJournal.suffix) else {
                result?.pointee = 0
                return SQLITE_OK
            }
            return RollbackJournal.system?.pointee.xAccess(vfs, name, flags, result) ?? SQLITE_IOERR
        }
        // It stays until the end of the process.
        sqlite3_vfs_register(blind, 1)
    }()

    /// SQLite's own way to files. SQLite never changes it, so all threads may read it.
    nonisolated(unsafe) private static let system = sqlite3_vfs_find(nil)

    /// Why backends cannot open a database, if there is a journal beside it.
    static func obstacle(at path: String) -> String? {
        var status = stat()
        guard lstat(path + suffix, &status) == 0 else { return nil }
        return
            "\(path)\(suffix) keeps new connections out; siwatch's database never has such a file, and the user \(status.st_uid) has put it "
            + "there: remove it with rm, and look what else that user did"
    }
}
