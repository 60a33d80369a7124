// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto

/// The names of users in logs.
///
/// A pseudonym is the first 12 hex digits of an HMAC-SHA-256 of the `sub`, under a key that HKDF derives from the sealing key. So only
/// holders of the key file can find the lines about a user. A new sealing key changes the pseudonyms.
package struct UserPseudonyms: Sendable {
    private let key: SymmetricKey

    package init(_ ring: KeyRing) {
        key = ring.derivedKey(for: "siwatch/user-pseudonym/1")
    }

    package func pseudonym(of userID: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array(userID.utf8), using: key)
        return code.prefix(6).map(\.hexadecimal).joined()
    }
}
