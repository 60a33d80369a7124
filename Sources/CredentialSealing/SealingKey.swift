// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// A 256-bit key that seals and opens, and the id by which sealed bytes name it.
struct SealingKey: Sendable {
    /// The first four bytes of a hash of the key, so that nobody has to choose an id and none is used twice.
    let id: UInt32
    let material: SymmetricKey

    init(_ material: SymmetricKey) {
        var hash = SHA256()
        hash.update(data: Array("siwatch/sealing-key-id/1".utf8))
        material.withUnsafeBytes { hash.update(bufferPointer: $0) }
        self.id = hash.finalize().prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        self.material = material
    }

    static func random() -> SealingKey { SealingKey(SymmetricKey(size: .bits256)) }
}

/// A key as one line of the key file. The prefix helps people, and scanners that look for secrets in the wrong places.
extension SealingKey {
    private static let prefix = "siwatch-sealing-key-1:"

    /// - Returns: nil if the line differs by even one space, or by one stray bit in the base64.
    init?(line: Substring) {
        guard line.hasPrefix(Self.prefix) else { return nil }
        let base64 = String(line.dropFirst(Self.prefix.count))
        // Foundation accepts bits that no encoder writes, so the text is compared with its own encoding.
        guard let bytes = Data(base64Encoded: base64), bytes.count == 32, bytes.base64EncodedString() == base64 else { return nil }
        self.init(SymmetricKey(data: bytes))
    }

    var line: String { Self.prefix + material.withUnsafeBytes { Data($0) }.base64EncodedString() }
}

extension KeyRing {
    /// Makes a key file with a new key. When it returns, the key is durable and tokens may be sealed with it.
    package static func create(at path: String) throws(KeyFileError) -> KeyRing {
        let ring = KeyRing.generate()
        try KeyFile.create(ring.text, at: path)
        return ring
    }
}

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
