// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What a user of the host may do to a database file, by the mode bits. An access list may allow more.
struct BackendAccess {
    private let name: String
    private let user: uid_t
    private let groups: Set<gid_t>

    init?(user name: String) {
        guard let entry = Account.User(name) else { return nil }
        var count: Int32 = 1024
        var found = [gid_t](repeating: 0, count: Int(count))
        guard getgrouplist(name, entry.groupID, &found, &count) >= 0 else { return nil }
        (self.name, user, groups) = (name, entry.id, Set(found.prefix(Int(count))))
    }

    /// What keeps the user from inserting, and the command that mends it; nil if nothing does.
    func obstacle(to path: String) -> (sentence: String, remedy: String)? {
        var above = path.folder.folder
        while above != "/" {
            if let obstacle = obstacle("reach", above, 0o1, "o+x") { return obstacle }
            above = above.folder
        }
        guard let database = HostFile(path) else {
            return ("\(path) is not there, or cannot be seen from here", "sudo -u \(name) ls \(path.shellQuoted)")
        }
        let group = database.group
        // A member of that group could read far more than this file.
        if database.status.st_gid == 0, user != 0, !groups.contains(0), let folder = HostFile(path.folder), folder.status.st_gid != 0 {
            let command = "sudo chown \(folder.owner):\(folder.group) \(path.shellQuoted)"
            return ("\(path) belongs to the group \(group), and not to that of its folder", command)
        }
        if user != database.status.st_uid, user != 0, !groups.contains(database.status.st_gid) {
            let restart = "then restart the backend, because a process keeps the groups of its start"
            return ("\(name) is not in the group \(group) of \(path)", "sudo usermod -aG \(group) \(name), \(restart)")
        }
        // SQLite makes the log and the shared memory beside the database.
        if let obstacle = obstacle("make files in", path.folder, 0o3, "g+rwx") { return obstacle }
        return HostFile.namesOfDatabase(path).lazy.compactMap { obstacle("write", $0, 0o6, "g+rw") }.first
    }

    func isMember(of group: gid_t) -> Bool { groups.contains(group) }

    /// - Parameter rights: 4 to read, 2 to write, 1 to enter a folder.
    private func obstacle(_ verb: String, _ path: String, _ rights: mode_t, _ change: String) -> (sentence: String, remedy: String)? {
        guard user != 0, let status = stat(at: path) else { return nil }
        let shift: mode_t = status.st_uid == user ? 6 : groups.contains(status.st_gid) ? 3 : 0
        if status.st_mode >> shift & rights == rights { return nil }
        return ("\(name) cannot \(verb) \(path), which has mode \(status.modeText)", "sudo chmod \(change) \(path.shellQuoted)")
    }
}

// MARK: The members of a database's group, such as backends

extension HostFile {
    fileprivate static func namesOfDatabase(_ path: String) -> [String] { [path, "\(path)-wal", "\(path)-shm"] }

    /// Whether the group's line names somebody besides the owner of the file.
    var isOpenToMembers: Bool { Account.Group(status.st_gid)?.members.contains { $0 != owner } ?? false }

    /// What keeps the members of its group out of this database, with the command that lets them in; nil if nothing does. A database that
    /// gives its group no right at all has no members to keep out.
    var groupObstacle: String? {
        guard status.st_mode & 0o060 != 0 else { return nil }
        for file in Self.namesOfDatabase(path).compactMap({ HostFile($0) }) {
            if file.status.st_gid != status.st_gid {
                return "\(file.path) belongs to the group \(file.group), so that backends in the group \(group) cannot write it; "
                    + "sudo chgrp -h \(group) \(file.path.shellQuoted) lets them"
            }
            if !file.allows(0o060) { return file.sentence("g+rw", "backends in the group \(group) cannot write it") }
        }
        guard let folder = HostFile(path.folder) else { return nil }
        let (bit, change): (mode_t, String) = folder.status.st_gid == status.st_gid ? (0o010, "2770") : (0o001, "o+x")
        if folder.allows(bit) { return nil }
        return folder.sentence(change, "backends in the group \(group) cannot reach the database in it")
            + "; if none is in that group, \(chmod("g=")) says so"
    }

    /// Why backends can insert into this database only while siwatch runs, with the command that mends it; nil if nothing is wrong. The last
    /// process to close the database removes its log, and the next one has to make it again.
    var groupWeakness: String? {
        // A folder that is open to others was not made for a group.
        guard allows(0o060), let folder = HostFile(path.folder), folder.status.st_gid == status.st_gid,
            folder.status.st_mode & 0o037 == 0o010
        else { return nil }
        return folder.sentence("2770", "backends in the group \(group) can insert only while siwatch runs")
    }

    private func sentence(_ change: String, _ result: String) -> String {
        "\(path) has mode \(status.modeText), so that \(result); \(chmod(change)) lets them"
    }
}
