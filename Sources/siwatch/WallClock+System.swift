// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Glibc

extension WallClock {
    /// The machine's clock.
    static let system = WallClock(
        now: { .current },
        sleep: { deadline, tolerance in
            try await Task.sleep(for: Timestamp.current.duration(to: deadline), tolerance: tolerance)
        }
    )
}

extension Timestamp {
    fileprivate static var current: Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }
}
