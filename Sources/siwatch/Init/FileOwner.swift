// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The owner of new files and folders.
struct FileOwner {
    let user: String
    private let userID: uid_t
    private var groupID: gid_t

    /// Nil if the host does not know the user.
    init?(_ name: String) {
        guard let entry = Account.User(name) else { return nil }
        (user, userID, groupID) = (name, entry.id, entry.groupID)
    }

    /// The same user, with the group that shares the database with backends, where the host has one.
    var inBackendGroup: FileOwner {
        var owner = self
        owner.groupID = Account.Group.ofBackends?.id ?? groupID
        return owner
    }

    /// Makes a new folder. No link that somebody puts in its place is followed.
    func makeFolder(_ path: String, mode: mode_t) throws(CommandFailure) {
        let url = URL(filePath: path)
        // By the folder above, so that nobody who may rename it leads us elsewhere.
        let above = open(url.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if above >= 0 { close(above) } }
        guard above >= 0, mkdirat(above, url.lastPathComponent, 0o700) == 0 else {
            throw .failed("the folder \(path.printable) cannot be made: \(systemError())")
        }
        let made = openat(above, url.lastPathComponent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        defer { if made >= 0 { close(made) } }
        var status = stat()
        guard made >= 0, fstat(made, &status) == 0, status.st_uid == geteuid(), status.st_mode & 0o777 == 0o700,
            fchown(made, userID, groupID) == 0, fchmod(made, mode) == 0
        else {
            throw .failed("the folder \(path.printable) cannot be given to \(user): \(systemError())")
        }
    }

    /// Writes a new file that only its owner can read.
    func write(_ text: String, to path: String) throws(CommandFailure) {
        try NewFile.write(text, to: path, owner: (userID, groupID))
    }

    /// The group whose members may write a database of this user's: that of backends, or of the file itself. Nil if a link, another user's
    /// file or the group of root stands there.
    func groupOfBackends(at database: String) -> gid_t? {
        if let group = Account.Group.ofBackends { return group.id }
        guard let status = stat(notFollowing: database), status.isRegularFile, status.st_uid == userID else { return nil }
        return status.st_gid == 0 ? nil : status.st_gid
    }
}
