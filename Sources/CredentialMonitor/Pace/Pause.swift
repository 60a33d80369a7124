// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A time in which Apple is not asked.
struct Pause: Sendable {
    var start: Timestamp
    var length: Duration

    var end: Timestamp { start.advanced(by: length) }

    /// False for a start in the future: the clock was set back, and nothing must stall.
    func holds(at now: Timestamp) -> Bool {
        start <= now && now < end
    }
}
