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

    func seal(_ bytes: [UInt8], for context: SealingContext) throws -> [UInt8] {
        let box = try AES.GCM.seal(bytes, using: material, authenticating: context.associatedData)
        return SealedBytes(keyID: id, box: box).bytes
    }
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
