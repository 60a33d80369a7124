// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Timestamp {
    /// The beginning of every test.
    static let start = Timestamp(milliseconds: 1_750_000_000_000)

    static func + (time: Timestamp, duration: Duration) -> Timestamp { time.advanced(by: duration) }
    static func - (time: Timestamp, duration: Duration) -> Timestamp { time.advanced(by: .zero - duration) }
}

extension Duration {
    static func minutes(_ count: Int) -> Duration { .seconds(60 * count) }
    static func hours(_ count: Int) -> Duration { .minutes(60 * count) }
    static func days(_ count: Int) -> Duration { .hours(24 * count) }
}
