// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto

/// Ciphertext in the form of a column.
///
///     version 1 │ key id 4 │ nonce 12 │ ciphertext n │ tag 16
///
/// The version covers everything else here: the lengths, AES-256-GCM, and the form of the associated data.
struct SealedBytes {
    var keyID: UInt32
    var box: AES.GCM.SealedBox

    private static let version: UInt8 = 1
    private static let headerLength = 5
}

extension SealedBytes {
    init(parsing bytes: [UInt8]) throws(SealingError) {
        guard let version = bytes.first else { throw .damaged }
        guard version == Self.version else { throw .unknownVersion(version) }
        guard let box = try? AES.GCM.SealedBox(combined: bytes.dropFirst(Self.headerLength)) else { throw .damaged }
        self.keyID = bytes[1..<Self.headerLength].reduce(0) { $0 << 8 | UInt32($1) }
        self.box = box
    }

    var bytes: [UInt8] {
        // A box with the default nonce has a combined form. There is no other nonce here.
        [Self.version] + withUnsafeBytes(of: keyID.bigEndian) { Array($0) } + box.combined!
    }
}

/// Why sealed bytes do not open.
package enum SealingError: Error, Equatable, Sendable {
    /// A later siwatch wrote the bytes, or they are not sealed bytes.
    case unknownVersion(UInt8)
    /// The key that sealed them is not in the key file.
    case unknownKey(id: String)
    /// The bytes are changed, cut, or made for another credential, another grant or another purpose.
    case damaged
}

extension SealingError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unknownVersion(let version): "sealed in format \(version), which this version does not know"
        case .unknownKey(let id): "sealed under key \(id), which the key file does not hold"
        case .damaged: "damaged, or sealed for another row"
        }
    }
}
