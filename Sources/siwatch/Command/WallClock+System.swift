// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

extension WallClock {
    static let system = WallClock(
        now: { .current },
        sleep: { deadline, tolerance in
            try await Task.sleep(for: Timestamp.current.duration(to: deadline), tolerance: tolerance)
        }
    )
}

extension Timestamp {
    fileprivate static var current: Timestamp {
        Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000))
    }
}
