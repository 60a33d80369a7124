// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How long and how often siwatch sends an authorization code.
package enum AuthorizationCode {
    /// Apple documents five minutes.
    package static let life = Duration.minutes(5)

    /// Waits after the first, second, … failure, short because a user is waiting. The last one repeats.
    private static let backOff: [Duration] = [.milliseconds(500), .seconds(1), .seconds(2), .seconds(5)]

    package static var longestWait: Duration { backOff[backOff.count - 1] }

    /// - Parameter failures: 1 or more.
    static func wait(afterFailures failures: Int) -> Duration {
        backOff[min(max(failures, 1), backOff.count) - 1]
    }
}
