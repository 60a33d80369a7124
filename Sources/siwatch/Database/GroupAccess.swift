// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Whether the members of a database's group, such as backends, can write it.
struct GroupAccess {
    /// Of the database.
    var path: String

    /// Whether the group's line names somebody besides the owner of the file.
    var hasMembers: Bool {
        guard let database = stat(at: path), let group = Account.Group(database.st_gid) else { return false }
        return group.members.contains { $0 != Account.name(ofUser: database.st_uid) }
    }

    /// What keeps the members out, with the command that lets them in; nil if nothing does. A database that gives its group no right at all
    /// has no members to keep out.
    var obstacle: String? {
        guard let database = stat(at: path), database.st_mode & 0o060 != 0 else { return nil }
        let group = Account.name(ofGroup: database.st_gid)
        for file in [path, "\(path)-wal", "\(path)-shm"] {
            guard let status = stat(at: file) else { continue }
            if status.st_gid != database.st_gid {
                let stranger = Account.name(ofGroup: status.st_gid)
                return "\(file) belongs to the group \(stranger), so that backends in the group \(group) cannot write it; "
                    + "sudo chgrp -h \(group) \(file.shellQuoted) lets them"
            }
            if status.st_mode & 0o060 != 0o060 {
                return sentence(on: file, status, "g+rw", "so that backends in the group \(group) cannot write it")
            }
        }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        guard let status = stat(at: folder) else { return nil }
        let (bit, change): (mode_t, String) = status.st_gid == database.st_gid ? (0o010, "2770") : (0o001, "o+x")
        if status.st_mode & bit != 0 { return nil }
        return sentence(on: folder, status, change, "so that backends in the group \(group) cannot reach the database in it")
            + "; if none is in that group, sudo -u \(Account.name(ofUser: database.st_uid)) chmod g= \(path.shellQuoted) says so"
    }

    /// Why backends can insert only while siwatch runs, with the command that mends it; nil if nothing is wrong. The last process to close
    /// the database removes its log, and the next one has to make it again.
    var weakness: String? {
        guard let database = stat(at: path), database.st_mode & 0o060 == 0o060 else { return nil }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        // A folder that is open to others was not made for a group.
        guard let status = stat(at: folder), status.st_gid == database.st_gid, status.st_mode & 0o037 == 0o010 else { return nil }
        let group = Account.name(ofGroup: database.st_gid)
        return sentence(on: folder, status, "2770", "so that backends in the group \(group) can insert only while siwatch runs")
    }

    private func sentence(on file: String, _ status: stat, _ change: String, _ result: String) -> String {
        "\(file) has mode \(status.modeText), \(result); sudo -u \(Account.name(ofUser: status.st_uid)) chmod \(change) "
            + "\(file.shellQuoted) lets them"
    }
}
