// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What sealed bytes belong to: they open for the very same and for nothing else.
///
/// It is the associated data of the encryption, so a token that is moved to another row, or a row that is given another time,
/// does not open.
enum SealingContext {
    case refreshToken(of: CredentialID, grantedAt: Timestamp)
    case secret(named: String)

    /// Every field preceded by its length in four bytes, so that no two contexts spell alike.
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
