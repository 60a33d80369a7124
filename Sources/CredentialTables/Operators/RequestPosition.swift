// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// How far a long request of an operator has come, for the next transaction or process.
enum RequestPosition: Codable {
    case recheck(RecheckPosition)
    case release(ReleasePosition)
}
