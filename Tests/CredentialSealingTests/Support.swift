// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

@testable import CredentialSealing

/// The line of the key file for the sealing key.
func line(of ring: KeyRing) -> String {
    ring.current.line
}

/// A sealer of a database of its own.
func newSealer(_ ring: KeyRing) throws -> CredentialSealer {
    try CredentialSealer(ring: ring, sealedFingerprintKey: CredentialSealer.newFingerprintKey(sealedBy: ring))
}
