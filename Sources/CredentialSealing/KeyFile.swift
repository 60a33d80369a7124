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
        let descriptor = openDirectory(of: path)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fsync(descriptor) == 0
    }

    private static func openDirectory(of path: String) -> Int32 {
        open(URL(filePath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    }

    private static func lastError() -> String { String(cString: strerror(errno)) }
}

extension KeyFile {
    /// Puts another text in the place of a file's, whole or not at all, and keeps mode and owner. Of several that come at once, each changes
    /// the text of the one before.
    ///
    /// - Parameter limit: of the file, in bytes.
    package static func change(_ path: String, limit: Int, _ body: (String) throws -> String) throws {
        let folder = openDirectory(of: path)
        guard folder >= 0 else { throw failure(at: path) }
        defer { close(folder) }
        // Of the folder, because a rename puts another file in the place of a locked one.
        while flock(folder, LOCK_EX) != 0 { guard errno == EINTR else { throw failure(at: path) } }

        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(at: path) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw KeyFileError.unwritable(path: path, reason: "not a regular file")
        }
        guard let bytes = try? file.read(upToCount: limit + 1) ?? Data(), bytes.count <= limit,
            let text = String(validating: bytes, as: UTF8.self)
        else { throw KeyFileError.unwritable(path: path, reason: "it cannot be read, or is longer than \(limit) bytes, or is not UTF-8") }
        try put(try body(text), in: path, as: status)
        // The lock ends here, because the descriptor is closed.
        guard fsync(folder) == 0 else { throw KeyFileError.doubtful(path: path, reason: lastError()) }
    }

    private static func put(_ text: String, in path: String, as status: stat) throws(KeyFileError) {
        var draft = Array("\(path).XXXXXX".utf8CString)
        let descriptor = mkstemp(&draft)
        guard descriptor >= 0 else { throw failure(at: path) }
        // After the rename there is no file of that name.
        defer { unlink(draft) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard fchown(descriptor, status.st_uid, status.st_gid) == 0, fchmod(descriptor, status.st_mode & 0o7777) == 0 else {
            throw failure(at: path)
        }
        do {
            try file.write(contentsOf: Data(text.utf8))
            try file.synchronize()
        } catch {
            throw failure(at: path)
        }
        guard rename(draft, path) == 0 else { throw failure(at: path) }
    }

    /// The last error of the system. A link, a mount and a folder of somebody else are changed elsewhere.
    private static func failure(at path: String) -> KeyFileError {
        let code = errno
        let reason = code == ELOOP ? "it is a symbolic link" : String(cString: strerror(code))
        return [EACCES, EPERM, EROFS, EBUSY, ELOOP].contains(code)
            ? .fixed(path: path, reason: reason) : .unwritable(path: path, reason: reason)
    }
}

package enum KeyFileError: Error, Equatable, CustomStringConvertible {
    case exists(path: String)
    case unwritable(path: String, reason: String)
    /// The folder or the file is not for this process to change.
    case fixed(path: String, reason: String)
    /// It was written, and perhaps not durably.
    case doubtful(path: String, reason: String)

    package var description: String {
        switch self {
        case .exists(let path): "\(path): exists already and is left as it is"
        case .unwritable(let path, let reason): "\(path): cannot be written: \(reason)"
        case .fixed(let path, let reason): "\(path): cannot be changed from here: \(reason)"
        case .doubtful(let path, let reason): "\(path): was changed, and may be lost if the host stops now: \(reason)"
        }
    }
}
