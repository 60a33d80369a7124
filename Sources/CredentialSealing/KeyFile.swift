// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

package enum KeyFile {
    /// Whether others may read such a file, or somebody but its owner may change it. The group may read it, because systemd and Kubernetes
    /// hand a credential to a non-root service that way.
    package static func isExposed(mode: UInt32) -> Bool { mode & 0o027 != 0 }

    /// Writes a new file of mode 0600. It appears whole or not at all, and never replaces another file.
    ///
    /// - Parameter owner: this process's user and group if nil.
    package static func create(_ text: String, at path: String, owner: (user: UInt32, group: UInt32)? = nil) throws(KeyFileError) {
        var draft = Array("\(path).XXXXXX".utf8CString)
        let descriptor = mkstemp(&draft)  // O_CREAT | O_EXCL, mode 0600
        guard descriptor >= 0 else { throw .unwritable(path: path, reason: lastError()) }
        defer { unlink(draft) }

        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        if let owner, fchown(descriptor, owner.user, owner.group) != 0 { throw .unwritable(path: path, reason: lastError()) }
        do {
            try file.write(contentsOf: Data(text.utf8))
            try file.synchronize()
        } catch {
            throw .unwritable(path: path, reason: lastError())
        }
        // A link refuses a name that is taken. A rename would replace the file.
        guard link(draft, path) == 0 else {
            throw errno == EEXIST ? .exists(path: path) : .unwritable(path: path, reason: lastError())
        }
        guard synchronizeDirectory(of: path) else { throw .unwritable(path: path, reason: lastError()) }
    }

    /// Makes a new name durable.
    private static func synchronizeDirectory(of path: String) -> Bool {
        let descriptor = open(URL(filePath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fsync(descriptor) == 0
    }

    private static func lastError() -> String { String(cString: strerror(errno)) }
}

package enum KeyFileError: Error, Equatable, CustomStringConvertible {
    case exists(path: String)
    case unwritable(path: String, reason: String)

    package var description: String {
        switch self {
        case .exists(let path): "\(path): exists already and is left as it is"
        case .unwritable(let path, let reason): "\(path): cannot be created: \(reason)"
        }
    }
}
