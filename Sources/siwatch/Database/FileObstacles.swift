// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Finds what would keep `siwatch run` from writing a database file, without writing anything.
struct FileObstacles {
    var path: String
    /// A new database replaces an empty file.
    var isEmpty: Bool
    /// Another program's file is none of our business.
    var isOurs: Bool

    /// The owner of the database, or of its folder, if root runs this in that user's place. Root's rights say nothing of the owner's.
    var userInPlaceOfRoot: String? {
        guard geteuid() == 0 else { return nil }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        let owners = [path, folder].compactMap { WritablePath(path: $0, isFolder: false).status?.st_uid }
        return owners.first { $0 != 0 }.map(Account.name(ofUser:))
    }

    /// Why the database cannot be written: one sentence each, with the command that corrects it. Empty if it can be written.
    var all: [String] {
        let folder = WritablePath(path: URL(filePath: path).deletingLastPathComponent().path, isFolder: true)
        guard let status = folder.status else {
            let reason = systemError()
            let command = "sudo install -d -o \(Account.service) -g \(Account.backendGroup) -m 2770 \(folder.path.shellQuoted)"
            return ["\(folder.path) cannot be reached: \(reason); if it is not there, \(command) makes it"]
        }
        var obstacles = folder.obstacle.map { [$0] } ?? []
        if isEmpty, let names = DatabaseLockError.links(to: path) { obstacles.append("\(names)") }
        // The other files would repeat the obstacle of the folder.
        if folder.obstacle == nil || !folder.isReadOnly && (status.st_uid == geteuid() || status.st_uid == 0) {
            let names = (isEmpty ? [] : [path]) + ["\(path)-wal", "\(path)-shm", "\(path).lock"]
            obstacles += names.compactMap { WritablePath(path: $0, isFolder: false, folder: status, isOurs: isOurs).obstacle }
        }
        return obstacles
    }
}

/// A file or folder that this process must be able to write.
private struct WritablePath {
    var path: String
    var isFolder: Bool
    /// The status of its folder, if known.
    var folder: stat?
    var isOurs = true

    var status: stat? { stat(at: path) }

    var isReadOnly: Bool { refusal == EROFS }

    /// The system's error against reading and writing the path, by the rights of this process. Nil if both are allowed.
    private var refusal: Int32? {
        faccessat(AT_FDCWD, path, R_OK | W_OK | (isFolder ? X_OK : 0), AT_EACCESS) == 0 ? nil : errno
    }

    /// Nil if the path can be written, or does not exist.
    var obstacle: String? {
        if let oddity { return oddity }
        guard let refusal, refusal != ENOENT else { return rootsOwn ?? exposure }
        switch refusal {
        case EROFS:
            let name = path.shellQuoted
            return """
                \(path) is on a file system that is mounted read-only; under systemd ReadWritePaths=\(name) in the unit opens it, else \
                sudo mount -o remount,rw "$(findmnt -n -o TARGET -T \(name))"
                """
        case EPERM: return "\(path) is immutable; sudo chattr -i \(path.shellQuoted) ends that"
        case EACCES: return "\(path) cannot be written by the user \(Account.user)\(mend)"
        default: return "\(path) cannot be written: \(systemError(refusal))"
        }
    }

    /// Anything but a regular file with one name. The members of the group may write the folder, so they may put a link to a file of root's
    /// there. No command of ours changes the mode or the owner of such a file.
    private var oddity: String? {
        guard !isFolder, let status = stat(notFollowing: path) else { return nil }
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

    /// Root may write it, and the siwatch that runs as the owner of its folder may not.
    private var rootsOwn: String? {
        guard geteuid() == 0, let status, status.st_uid == 0, let folder, folder.st_uid != 0 else { return nil }
        let owner = Account.name(ofUser: folder.st_uid)
        let command = "sudo chown -h \(owner):\(Account.name(ofGroup: folder.st_gid)) \(path.shellQuoted)"
        return "\(path) belongs to root, and the user \(owner), who owns its folder, cannot write it; \(command) gives it back"
    }

    /// Everybody on the host may replace the database in its folder, or open a file of it.
    private var exposure: String? {
        guard isOurs, let status else { return nil }
        let isExposed =
            if isFolder { status.st_mode & (0o002 | S_ISVTX) == 0o002 } else {
                status.st_mode & 0o006 != 0 && (folder?.st_mode ?? 0o001) & 0o001 != 0
            }
        guard isExposed else { return nil }
        let verb = status.st_mode & 0o002 != 0 ? "written" : "read"
        let chmod = "sudo -u \(Account.name(ofUser: status.st_uid)) chmod \(isFolder ? "o-w" : "o=")"
        return "\(path) can be \(verb) by everybody on this host; \(chmod) \(path.shellQuoted) closes it"
    }

    private var mend: String {
        guard let status else { return "" }
        // A person who runs siwatch as the wrong user must not be told to take the owner's database over.
        let home = folder ?? status
        if home.st_uid != geteuid(), home.st_uid != 0 {
            let owner = Account.name(ofUser: home.st_uid)
            return "; \(isFolder ? "it" : "its folder") belongs to \(owner): run siwatch with sudo -u \(owner)"
        }
        // Backends are members of the folder's group.
        let group = folder.flatMap { $0.st_uid == geteuid() ? Account.name(ofGroup: $0.st_gid) : nil } ?? Account.backendGroup
        let command = status.commands(for: path, mode: isFolder ? 0o2770 : 0o660, group: group)
        return ", it belongs to \(Account.name(ofUser: status.st_uid)) and has mode \(status.modeText); \(command) mends it"
    }
}
