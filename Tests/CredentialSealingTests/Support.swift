// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

@testable import CredentialSealing

/// The line that the key file holds for the key that seals.
func line(of ring: KeyRing) -> String {
    ring.current.line
}
