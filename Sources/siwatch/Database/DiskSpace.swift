// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

struct DiskSpace {
    /// In bytes. Enough for some hours of log, so that an operator has time to act.
    private static let least: UInt64 = 256 << 20

    /// Without the reserve that only root may use.
    var free: UInt64

    var isFull: Bool { free < 1 << 20 }

    static let remedy = "make room with other files; never delete the -wal or the -shm file"
    static let remedyOfServer = "make room on the server; never delete files under pg_wal"

    var finding: Finding? {
        guard free < Self.least else { return nil }
        let room = "\(isFull ? "nothing is" : "only \(free >> 20) MB are") free there"
        let sentence = "database.path: \(room); when none is, siwatch settles nothing and backends cannot insert"
        return Finding(.degraded, sentence, remedy: Self.remedy, runbook: .storeFull)
    }
}

extension DiskSpace {
    init?(at path: String) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        free = UInt64(status.f_bavail) * UInt64(status.f_frsize)
    }
}
