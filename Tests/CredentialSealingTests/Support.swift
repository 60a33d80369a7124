// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

@testable import CredentialSealing

/// The line of the key file for the sealing key.
func line(of ring: KeyRing) -> String {
    ring.current.line
}
