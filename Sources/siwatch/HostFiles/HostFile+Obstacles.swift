// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What keeps siwatch from a database file.
extension HostFile {
    /// The owner of the database, or of its folder, if root runs this in that user's place. Root's rights say nothing of the owner's.
    static func userInPlaceOfRoot(at path: String) -> String? {
        geteuid() == 0 ? [path, path.folder].compactMap { HostFile($0) }.first { $0.status.st_uid != 0 }?.owner : nil
    }

    /// One sentence each, with the command that corrects it. Empty if the database can be written. Nothing is written to find out.
    ///
    /// - Parameters:
    ///   - isEmpty: A new database replaces an empty file.
    ///   - isOurs: Another program's file is none of our business.
    static func obstacles(toDatabase path: String, isEmpty: Bool, isOurs: Bool) -> [String] {
        guard let folder = HostFile(path.folder) else {
            let reason = systemError()
            let command = "sudo install -d -o \(Account.service) -g \(Account.backendGroup) -m 2770 \(path.folder.shellQuoted)"
            return ["\(path.folder) cannot be reached: \(reason); if it is not there, \(command) makes it"]
        }
        let ofFolder = folder.obstacle()
        var obstacles = ofFolder.map { [$0] } ?? []
        if isEmpty, let names = DatabaseLockError.links(to: path) { obstacles.append("\(names)") }
        // The other files would repeat the obstacle of the folder.
        if ofFolder == nil || folder.refusal != EROFS && [geteuid(), 0].contains(folder.status.st_uid) {
            let names = (isEmpty ? [] : [path]) + ["\(path)-wal", "\(path)-shm", "\(path).lock"]
            obstacles += names.compactMap { oddity(at: $0) ?? HostFile($0)?.obstacle(in: folder, isOurs: isOurs) }
        }
        return obstacles
    }

    /// Anything but a regular file with one name. The members of the group may write the folder, so they may put a link to a file of root's
    /// there. No command of ours changes the mode or the owner of such a file.
    private static func oddity(at path: String) -> String? {
        guard let status = stat(notFollowing: path) else { return nil }
        switch status.st_mode & S_IFMT {
        case S_IFLNK:
            let owner = Account.name(ofUser: status.st_uid)
            return "\(path) is a symbolic link, made by \(owner), which is not followed; sudo rm \(path.shellQuoted) removes it"
        case S_IFREG where status.st_nlink > 1: return "\(DatabaseLockError.severalNames(database: path, count: Int(status.st_nlink)))"
        case S_IFREG: return nil
        case S_IFCHR, S_IFBLK: return "\(path) is a device, and no file that siwatch may write"
        default: return "\(path) is no regular file; sudo rm \(path.shellQuoted) removes it"
        }
    }

    private var isFolder: Bool { status.st_mode & S_IFMT == S_IFDIR }

    /// The system's error against reading and writing it, by the rights of this process. Nil if both are allowed.
    private var refusal: Int32? {
        faccessat(AT_FDCWD, path, R_OK | W_OK | (isFolder ? X_OK : 0), AT_EACCESS) == 0 ? nil : errno
    }

    /// - Parameter folder: that it lies in; nil for the folder itself.
    private func obstacle(in folder: HostFile? = nil, isOurs: Bool = true) -> String? {
        switch refusal {
        case nil: return rootsOwn(in: folder) ?? (isOurs ? exposure(in: folder) : nil)
        case ENOENT: return nil
        case EROFS:
            let name = path.shellQuoted
            return """
                \(path) is on a file system that is mounted read-only; under systemd ReadWritePaths=\(name) in the unit opens it, else \
                sudo mount -o remount,rw "$(findmnt -n -o TARGET -T \(name))"
                """
        case EPERM: return "\(path) is immutable; sudo chattr -i \(path.shellQuoted) ends that"
        case EACCES: return "\(path) cannot be written by the user \(Account.user)\(mend(in: folder))"
        case let refusal?: return "\(path) cannot be written: \(systemError(refusal))"
        }
    }

    /// Root may write it, and the siwatch that runs as the owner of its folder may not.
    private func rootsOwn(in folder: HostFile?) -> String? {
        guard geteuid() == 0, status.st_uid == 0, let folder, folder.status.st_uid != 0 else { return nil }
        let command = "sudo chown -h \(folder.owner):\(folder.group) \(path.shellQuoted)"
        return "\(path) belongs to root, and the user \(folder.owner), who owns its folder, cannot write it; \(command) gives it back"
    }

    /// Everybody on the host may replace the database in its folder, or open a file of it.
    private func exposure(in folder: HostFile?) -> String? {
        let isExposed = folder.map { status.st_mode & 0o006 != 0 && $0.allows(0o001) } ?? (status.st_mode & (0o002 | S_ISVTX) == 0o002)
        guard isExposed else { return nil }
        return "\(path) can be \(allows(0o002) ? "written" : "read") by everybody on this host; \(chmod(isFolder ? "o-w" : "o=")) closes it"
    }

    private func mend(in folder: HostFile?) -> String {
        // A person who runs siwatch as the wrong user must not be told to take the owner's database over.
        let home = folder ?? self
        if home.status.st_uid != geteuid(), home.status.st_uid != 0 {
            return "; \(isFolder ? "it" : "its folder") belongs to \(home.owner): run siwatch with sudo -u \(home.owner)"
        }
        // Backends are members of the folder's group.
        let group = folder.flatMap { $0.status.st_uid == geteuid() ? $0.group : nil } ?? Account.backendGroup
        let command = status.commands(for: path, mode: isFolder ? 0o2770 : 0o660, group: group)
        return ", it belongs to \(owner) and has mode \(status.modeText); \(command) mends it"
    }
}
