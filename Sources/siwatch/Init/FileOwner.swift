// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The user whom new files and folders belong to.
struct FileOwner {
    let user: String
    private let userID: uid_t
    private var groupID: gid_t

    /// Nil if the host does not know the user.
    init?(_ name: String) {
        guard let entry = getpwnam(name)?.pointee else { return nil }
        (user, userID, groupID) = (name, entry.pw_uid, entry.pw_gid)
    }

    /// The same user, with the group that shares the database with backends, where the host has one.
    var inBackendGroup: FileOwner {
        var owner = self
        owner.groupID = getgrnam("siwatch-backend")?.pointee.gr_gid ?? groupID
        return owner
    }

    /// Makes a new folder.
    func makeFolder(_ path: String, mode: mode_t) throws(CommandFailure) {
        guard mkdir(path, 0o700) == 0, chown(path, userID, groupID) == 0, chmod(path, mode) == 0 else {
            throw .failed("the folder \(path.printable) cannot be made: \(systemError())")
        }
    }

    /// Writes a new file that only its owner can read. A file that is there stays as it is.
    func write(_ text: String, to path: String) throws(CommandFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("\(path.printable) cannot be made: \(systemError())") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try file.write(contentsOf: Data(text.utf8))
            try file.synchronize()
        } catch {
            unlink(path)
            throw .failed("\(path.printable) cannot be written: \(error)")
        }
        guard fchown(descriptor, userID, groupID) == 0 else {
            unlink(path)
            throw .failed("\(path.printable) cannot be given to \(user): \(systemError())")
        }
    }
}
