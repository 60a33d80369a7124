// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import GRDBSQLite

/// The file of old pages that a database without a log would have beside it. siwatch's never has one.
///
/// Whoever can write the folder may put one there. SQLite plays it back at the next opening of the database, and then deletes the file that
/// the journal names as its super-journal: any file that the process may delete, such as a key or a backup. While a siwatch is at work, no
/// other program can open the database beside it.
enum RollbackJournal {
    static let suffix = "-journal"

    /// From now on, SQLite in this process finds no such file, as if there were none.
    static func ignore() { registration }

    private static let registration: Void = {
        guard let system = sqlite3_vfs_find(nil) else { return }
        let blind = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        blind.initialize(to: system.pointee)
        blind.pointee.zName = UnsafePointer(strdup("siwatch"))
        blind.pointee.pNext = nil
        blind.pointee.xAccess = { vfs, name, flags, result in
            if let name, String(cString: name).hasSuffix(RollbackJournal.suffix) {
                result?.pointee = 0
                return SQLITE_OK
            }
            return RollbackJournal.systemAccess?(vfs, name, flags, result) ?? SQLITE_IOERR
        }
        systemAccess = system.pointee.xAccess
        // It stays until the end of the process.
        sqlite3_vfs_register(blind, 1)
    }()

    /// Written once, before the first file is opened.
    nonisolated(unsafe) private static var systemAccess:
        (
            @convention(c) (UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, Int32, UnsafeMutablePointer<Int32>?) -> Int32
        )?

    /// Why backends cannot open a database, if there is a journal beside it.
    static func obstacle(at path: String) -> String? {
        var status = stat()
        guard lstat(path + suffix, &status) == 0 else { return nil }
        return
            "\(path)\(suffix) keeps new connections out; siwatch's database never has such a file, and the user \(status.st_uid) has put it "
            + "there: remove it with rm, and look what else that user did"
    }
}
