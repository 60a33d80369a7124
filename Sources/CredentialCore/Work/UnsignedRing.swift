// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A part of the quarantine that keeps only its newest rows, because anybody could have sent them: the endpoint is open to all.
package enum UnsignedRing: String, Sendable, CaseIterable {
    /// No notification of Apple's. An id_token is here too: Apple signs it, but every user has one.
    case forged = "unsigned"
    /// Apple may have signed it with a key that siwatch does not know yet. So no flood of forgeries evicts it.
    case unknownKey = "unknown_key"

    package static let mostRows = 10_000
    package static let mostBytes = 64 << 20
    package static let evictedCounter = "quarantine_evicted"

    package var rowsCounter: String { "quarantine_\(rawValue)_rows" }
    package var bytesCounter: String { "quarantine_\(rawValue)_bytes" }
}
