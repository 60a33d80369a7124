// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The context of sealed bytes: a credential and grant, or the name of a secret. The bytes open in the same context only.
///
/// It is the associated data of the encryption. So a token does not open after it is moved to another row, or after its row gets another
/// time.
enum SealingContext {
    case refreshToken(of: CredentialID, grantedAt: Timestamp)
    case secret(named: String)

    /// Each field follows its length in four bytes, so that no two contexts have the same bytes.
    var associatedData: [UInt8] {
        switch self {
        case .refreshToken(let credential, let grantedAt):
            Self.join([
                Array("siwatch/refresh-token/1".utf8),
                Array(credential.clientID.utf8),
                Array(credential.userID.utf8),
                Self.bigEndian(grantedAt.milliseconds),
            ])
        case .secret(let name):
            Self.join([Array("siwatch/secret/1".utf8), Array(name.utf8)])
        }
    }

    private static func join(_ fields: [[UInt8]]) -> [UInt8] {
        fields.reduce(into: []) { $0 += bigEndian(UInt32($1.count)) + $1 }
    }

    private static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}
