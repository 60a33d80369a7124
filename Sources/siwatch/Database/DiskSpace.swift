// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The room that a file system has left for a database.
struct DiskSpace {
    /// In bytes. Enough for some hours of log, so that an operator has time to act.
    private static let least: UInt64 = 256 << 20

    /// Without the reserve that only root may use.
    var free: UInt64

    /// Whether hardly another row fits.
    var isFull: Bool { free < 1 << 20 }

    /// What an operator does about it.
    static let remedy = "make room with other files; never delete the -wal or the -shm file"
    static let remedyOfServer = "make room on the server; never delete files under pg_wal"

    /// Nil unless the room is about to run out.
    var finding: Finding? {
        guard free < Self.least else { return nil }
        let room = "\(isFull ? "nothing is" : "only \(free >> 20) MB are") free there"
        let sentence = "database.path: \(room); when none is, siwatch settles nothing and backends cannot insert"
        return Finding(.degraded, sentence, remedy: Self.remedy, runbook: "siwatchstorefull")
    }
}

extension DiskSpace {
    /// - Parameter path: of a file or a folder. Nil if the system does not tell.
    init?(at path: String) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        free = UInt64(status.f_bavail) * UInt64(status.f_frsize)
    }
}
