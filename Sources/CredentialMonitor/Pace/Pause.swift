// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A time in which Apple is not asked.
struct Pause: Sendable {
    var start: Timestamp
    var length: Duration

    var end: Timestamp { start.advanced(by: length) }

    /// A start that has yet to come is from a clock that has since been set back, and stalls nothing.
    func holds(at now: Timestamp) -> Bool {
        start <= now && now < end
    }
}
