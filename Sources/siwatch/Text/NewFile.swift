// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A file that did not exist before, which only its owner can read.
enum NewFile {
    /// Writes the file as a whole, or leaves none.
    ///
    /// - Parameter owner: this process's user if nil.
    /// - Throws: `CommandFailure` if something has the name already. It stays as it is, and no link is followed.
    static func write(_ text: String, to path: String, owner: (user: uid_t, group: gid_t)? = nil) throws(CommandFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason = errno == EEXIST ? "exists already and is left as it is" : "cannot be made: \(systemError())"
            throw .failed("\(path.printable) \(reason)")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try file.write(contentsOf: Data(text.utf8))
            try file.synchronize()
        } catch {
            unlink(path)
            throw .failed("\(path.printable) cannot be written: \(error)")
        }
        if let owner, fchown(descriptor, owner.user, owner.group) != 0 {
            let reason = systemError()
            unlink(path)
            throw .failed("\(path.printable) cannot be given to \(Account.name(ofUser: owner.user)): \(reason)")
        }
    }
}
