// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// 256 bits that seal and open, and the name by which sealed bytes call them.
struct SealingKey: Sendable {
    /// The first four bytes of a hash of the key, so that a name is never given by hand and never given twice.
    let id: UInt32
    let material: SymmetricKey

    init(_ material: SymmetricKey) {
        var hash = SHA256()
        hash.update(data: Array("siwatch/sealing-key-id/1".utf8))
        material.withUnsafeBytes { hash.update(bufferPointer: $0) }
        self.id = hash.finalize().prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        self.material = material
    }

    static func random() -> SealingKey {
        SealingKey(SymmetricKey(size: .bits256))
    }
}

/// A key as one line of the key file: `siwatch-sealing-key-1:` and base64 of the 32 bytes.
///
/// The prefix is for people and for scanners that look for secrets in the wrong places.
extension SealingKey {
    private static let prefix = "siwatch-sealing-key-1:"

    /// - Returns: nil where the line is anything else, be it by one space or by one stray bit in the base64.
    init?(line: Substring) {
        guard line.hasPrefix(Self.prefix) else { return nil }
        let base64 = String(line.dropFirst(Self.prefix.count))
        // Foundation forgives bits that no encoder writes, so the text is compared with what it should have been.
        guard let bytes = Data(base64Encoded: base64), bytes.count == 32, bytes.base64EncodedString() == base64 else { return nil }
        self.init(SymmetricKey(data: bytes))
    }

    var line: String {
        Self.prefix + material.withUnsafeBytes { Data($0) }.base64EncodedString()
    }
}
