// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// A wall clock that stands still until a test moves it.
final class HeldClock: Sendable {
    private let time: NIOLockedValueBox<Timestamp>

    init(_ time: Timestamp = Timestamp(milliseconds: AppleFixture.issuedAt * 1000 + 30_000)) {
        self.time = NIOLockedValueBox(time)
    }

    var now: Timestamp { time.withLockedValue { $0 } }

    func advance(by duration: Duration) {
        time.withLockedValue { $0 = $0.advanced(by: duration) }
    }

    var clock: WallClock {
        WallClock(now: { self.now }, sleep: { _, _ in preconditionFailure("nobody sleeps here") })
    }
}
