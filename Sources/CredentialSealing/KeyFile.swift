// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The key file on disk.
extension KeyRing {
    /// Reads the keys of a file.
    ///
    /// It refuses a file that others may read, or that anybody but its owner may change. The group may read it, because systemd and
    /// Kubernetes hand a credential to a non-root service that way.
    package init(contentsOf path: String) throws(KeyFileError) {
        let text = try KeyFile.read(path)
        do throws(KeyTextError) {
            try self.init(parsing: text)
        } catch {
            throw .malformed(path: path, error)
        }
    }

    /// - Returns: why a process that starts with this file could not seal and open as this ring does; nil if it could.
    func trouble(ofFile path: String) -> String? {
        do {
            let lost = Set(keyIDs).subtracting(try KeyRing(contentsOf: path).keyIDs)
            return lost.isEmpty ? nil : "\(path) no longer holds the key \(lost.sorted().joined(separator: " "))"
        } catch {
            return "\(error)"
        }
    }

    /// Writes a new key to a new file of mode 0600. When it returns, the key is durable and tokens may be sealed with it.
    ///
    /// The file appears whole or not at all, and never replaces another file.
    package static func create(at path: String) throws(KeyFileError) -> KeyRing {
        let ring = KeyRing.generate()
        try KeyFile.create(ring.text, at: path)
        return ring
    }
}

package enum KeyFile {
    /// The longest key file, in bytes: some hundreds of keys.
    private static let longest = 65_536

    /// Whether a file of this mode is no place for a secret: others may read it, or somebody but its owner may change it.
    package static func isExposed(mode: UInt32) -> Bool {
        mode & 0o027 != 0
    }

    fileprivate static func read(_ path: String) throws(KeyFileError) -> String {
        // Does not block, because a named pipe in its place would never return.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? .missing(path: path) : .unreadable(path: path, reason: lastError())
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)

        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .unreadable(path: path, reason: lastError()) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .unreadable(path: path, reason: "not a regular file") }
        guard !isExposed(mode: status.st_mode) else { throw .exposed(path: path, mode: status.st_mode & 0o777) }
        guard status.st_size <= longest else { throw .unreadable(path: path, reason: "too long to be a key file") }

        guard let bytes = try? file.read(upToCount: longest) ?? Data() else { throw .unreadable(path: path, reason: lastError()) }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .unreadable(path: path, reason: "not UTF-8") }
        return text
    }

    fileprivate static func create(_ text: String, at path: String) throws(KeyFileError) {
        var draft = Array("\(path).XXXXXX".utf8CString)
        let descriptor = mkstemp(&draft)  // O_CREAT | O_EXCL, mode 0600
        guard descriptor >= 0 else { throw .unwritable(path: path, reason: lastError()) }
        defer { unlink(draft) }

        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
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

    /// Makes a new name durable by writing its directory to disk.
    private static func synchronizeDirectory(of path: String) -> Bool {
        let descriptor = open(URL(filePath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fsync(descriptor) == 0
    }

    private static func lastError() -> String {
        String(cString: strerror(errno))
    }
}

/// Why a key file cannot be used or made. It never holds text of the file.
package enum KeyFileError: Error, Equatable, Sendable {
    case missing(path: String)
    case unreadable(path: String, reason: String)
    case exposed(path: String, mode: UInt32)
    case malformed(path: String, KeyTextError)
    case exists(path: String)
    case unwritable(path: String, reason: String)
}

extension KeyFileError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .missing(let path):
            "\(path): there is no such file"
        case .unreadable(let path, let reason):
            "\(path): cannot be read: \(reason)"
        case .exposed(let path, let mode):
            "\(path): its mode 0\(String(mode, radix: 8)) lets others read it or change it"
        case .malformed(let path, let error):
            "\(path): \(error)"
        case .exists(let path):
            "\(path): exists already and is left as it is"
        case .unwritable(let path, let reason):
            "\(path): cannot be created: \(reason)"
        }
    }
}
