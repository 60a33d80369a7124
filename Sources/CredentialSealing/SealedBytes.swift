// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
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
        [Self.version] + LengthPrefixed.bigEndian(keyID) + box.combined!
    }
}

package enum SealingError: Error, Equatable, CustomStringConvertible {
    /// A later siwatch wrote the bytes, or they are not sealed bytes.
    case unknownVersion(UInt8)
    case unknownKey(id: String)
    /// The bytes are changed, cut, or made for another credential, another grant or another purpose.
    case damaged

    package var description: String {
        switch self {
        case .unknownVersion(let version): "sealed in format \(version), which this version does not know"
        case .unknownKey(let id): "sealed under key \(id), which the key file does not hold"
        case .damaged: "damaged, or sealed for another row"
        }
    }
}

/// The context of sealed bytes: a database, credential and grant, or the name of a secret. The bytes open in the same context only.
///
/// It is the associated data of the encryption. So a token does not open after it is moved to another row or database, or after its row
/// gets another time. It does not name the table, because a request to revoke copies the token from `credential` to `revocation` as it is.
enum SealingContext {
    case refreshToken(of: CredentialID, grantedAt: Timestamp, installation: [UInt8])
    case secret(named: String)

    var associatedData: [UInt8] {
        switch self {
        case .refreshToken(let credential, let grantedAt, let installation):
            LengthPrefixed.join([
                Array("siwatch/refresh-token/1".utf8),
                installation,
                Array(credential.clientID.utf8),
                Array(credential.userID.utf8),
                LengthPrefixed.bigEndian(grantedAt.milliseconds),
            ])
        case .secret(let name):
            LengthPrefixed.join([Array("siwatch/secret/1".utf8), Array(name.utf8)])
        }
    }
}

enum LengthPrefixed {
    /// Each field follows its length in four bytes, so that no two lists of fields have the same bytes.
    static func join(_ fields: [[UInt8]]) -> [UInt8] {
        fields.reduce(into: []) { $0 += bigEndian(UInt32($1.count)) + $1 }
    }

    static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}
