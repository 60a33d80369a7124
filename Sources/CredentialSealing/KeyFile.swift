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
        func failure(_: String) -> KeyFileError {
            errno == EEXIST ? .exists(path: path) : .unwritable(path: path, reason: lastError())
        }
        let folder = openDirectory(of: path)
        guard folder >= 0 else { throw failure(path) }
        defer { close(folder) }
        guard lock(folder) else { throw failure(path) }
        // A link refuses a name that is taken. A rename would replace the file.
        try withDraft(of: text, for: path, owner: owner, orThrow: failure) { link($0, path) }
        guard fsync(folder) == 0 else { throw failure(path) }
    }

    /// Writes a text durably into a draft of mode 0600 beside a path, for `place` to put it there. The caller holds the lock on the folder,
    /// so a draft that stands there already was left by a kill.
    ///
    /// - Parameters:
    ///   - failure: the last error of the system, at the path.
    ///   - place: gets the draft's path, and returns 0 if it has succeeded, as system calls do.
    private static func withDraft(
        of text: String,
        for path: String,
        owner: (user: UInt32, group: UInt32)?,
        mode: mode_t? = nil,
        orThrow failure: (String) -> KeyFileError,
        _ place: (String) -> Int32
    ) throws(KeyFileError) {
        let draft = "\(path).siwatch-draft"
        guard unlink(draft) == 0 || errno == ENOENT else { throw failure(path) }
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(path) }
        defer { unlink(draft) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        if let owner, fchown(descriptor, owner.user, owner.group) != 0 { throw failure(path) }
        if let mode, fchmod(descriptor, mode) != 0 { throw failure(path) }
        do {
            try file.write(contentsOf: Data(text.utf8))
            try file.synchronize()
        } catch {
            throw failure(path)
        }
        guard place(draft) == 0 else { throw failure(path) }
    }

    private static func openDirectory(of path: String) -> Int32 {
        open(URL(filePath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    }

    /// Locks a folder until its descriptor is closed. A lock on a file in it would not do, because a rename puts another in its place.
    private static func lock(_ folder: Int32) -> Bool {
        while flock(folder, LOCK_EX) != 0 { guard errno == EINTR else { return false } }
        return true
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
        guard lock(folder) else { throw failure(at: path) }

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
        let owner = (user: status.st_uid, group: status.st_gid)
        try withDraft(of: try body(text), for: path, owner: owner, mode: status.st_mode & 0o7777, orThrow: failure(at:)) {
            rename($0, path)
        }
        // The lock ends here, because the descriptor is closed.
        guard fsync(folder) == 0 else { throw KeyFileError.doubtful(path: path, reason: lastError()) }
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
