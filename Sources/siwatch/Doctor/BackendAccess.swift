// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What a user of the host may do to a file, by the mode bits. An access list may allow more.
struct BackendAccess {
    private let name: String
    private let user: uid_t
    private let groups: Set<gid_t>

    /// Nil if the host does not know the user.
    init?(user name: String) {
        guard let entry = Account.User(name) else { return nil }
        var count: Int32 = 1024
        var found = [gid_t](repeating: 0, count: Int(count))
        guard getgrouplist(name, entry.groupID, &found, &count) >= 0 else { return nil }
        (self.name, user, groups) = (name, entry.id, Set(found.prefix(Int(count))))
    }

    /// What keeps the user from inserting into an SQLite database, and the command that mends it; nil if nothing does.
    func obstacle(to path: String) -> (sentence: String, remedy: String)? {
        let folder = URL(filePath: path).deletingLastPathComponent()
        var above = folder.deletingLastPathComponent()
        while above.path != "/" {
            if let status = stat(at: above.path), !may(0o1, status) {
                return ("\(name) cannot reach \(above.path), which has mode \(status.modeText)", "sudo chmod o+x \(above.path.shellQuoted)")
            }
            above = above.deletingLastPathComponent()
        }
        guard let status = stat(at: path) else {
            return ("\(path) is not there, or cannot be seen from here", "sudo -u \(name) ls \(path.shellQuoted)")
        }
        let group = Account.name(ofGroup: status.st_gid)
        // A member of that group could read far more than this file.
        if status.st_gid == 0, user != 0, !groups.contains(0), let folder = stat(at: folder.path), folder.st_gid != 0 {
            let owner = "\(Account.name(ofUser: folder.st_uid)):\(Account.name(ofGroup: folder.st_gid))"
            return ("\(path) belongs to the group \(group), and not to that of its folder", "sudo chown \(owner) \(path.shellQuoted)")
        }
        if user != status.st_uid, user != 0, !groups.contains(status.st_gid) {
            let restart = "then restart the backend, because a process keeps the groups of its start"
            return ("\(name) is not in the group \(group) of \(path)", "sudo usermod -aG \(group) \(name), \(restart)")
        }
        // SQLite makes the log and the shared memory beside the database.
        if let status = stat(at: folder.path), !may(0o3, status) {
            return (
                "\(name) cannot make files in \(folder.path), which has mode \(status.modeText)",
                "sudo chmod g+rwx \(folder.path.shellQuoted)"
            )
        }
        for file in [path, "\(path)-wal", "\(path)-shm"] {
            guard let status = stat(at: file), !may(0o6, status) else { continue }
            return ("\(name) cannot write \(file), which has mode \(status.modeText)", "sudo chmod g+rw \(file.shellQuoted)")
        }
        return nil
    }

    func isMember(of group: gid_t) -> Bool { groups.contains(group) }

    /// - Parameter rights: 4 to read, 2 to write, 1 to enter a folder.
    private func may(_ rights: mode_t, _ status: stat) -> Bool {
        if user == 0 { return true }
        let shift: mode_t = status.st_uid == user ? 6 : groups.contains(status.st_gid) ? 3 : 0
        return status.st_mode >> shift & rights == rights
    }
}
