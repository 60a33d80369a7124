// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

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

/// Bytes to authenticate, made of several fields.
enum LengthPrefixed {
    /// Each field follows its length in four bytes, so that no two lists of fields have the same bytes.
    static func join(_ fields: [[UInt8]]) -> [UInt8] {
        fields.reduce(into: []) { $0 += bigEndian(UInt32($1.count)) + $1 }
    }

    static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}
