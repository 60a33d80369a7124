// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers
import Testing

@testable import CredentialMonitor

struct LoopProgressTests {
    private let now = NIOLockedValueBox(ContinuousClock.now)

    private func progress(longestSilence: Duration) -> LoopProgress {
        LoopProgress(lanes: [.grants, .codes], pollInterval: .seconds(1), longestSilence: longestSilence) { [now] in
            now.withLockedValue { $0 }
        }
    }

    private func pass(_ time: Duration) {
        now.withLockedValue { $0 += time }
    }

    /// A new process would find the server just as frozen. A loop hangs only if it waits longer than the store ever takes.
    @Test func whoWaitsForASilentStoreDoesNotHang() {
        let progress = progress(longestSilence: .seconds(85))
        for lane in [Lane.grants, .codes] { progress.turn(lane) }
        #expect(progress.stalled == [] && progress.hung == [])
        pass(.seconds(89))
        #expect(progress.stalled == ["codes", "grants"] && progress.hung == [])
        progress.refused(.codes)
        pass(.seconds(2))
        #expect(progress.stalled == ["codes", "grants"] && progress.hung == ["grants"])
        progress.turn(.grants)
        #expect(progress.stalled == ["codes"] && progress.hung == [])
    }
}
