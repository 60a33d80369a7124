// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Whether people are signing in by code now. Other work then runs in short steps, so that nobody waits long for the processor or for the
/// lock.
package final class SignInRush: Sendable {
    private let since = NIOLockedValueBox<ContinuousClock.Instant?>(nil)

    /// After one sign-in by code, the next one is probably near.
    private static let memory = Duration.minutes(10)

    package init() {}

    func begin() {
        since.withLockedValue { $0 = .now }
    }

    var isOn: Bool {
        since.withLockedValue { $0 }.map { ContinuousClock.now - $0 < Self.memory } ?? false
    }
}
