// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto

/// A proof is an HMAC-SHA-256 under a key that is derived from the fingerprint key. So it holds for the life of the database, on whichever
/// store and under whichever sealing key, and for no other database.
extension CredentialSealer: DecisionProver {
    package func prove(_ decision: Decision) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: decision.contents, using: decisionKey))
    }

    package func isProved(_ decision: Decision, by proof: [UInt8]) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(proof, authenticating: decision.contents, using: decisionKey)
    }
}
