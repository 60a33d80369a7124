// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
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

    /// A start that the database holds up says why, before any loop has turned.
    @Test func aLoopThatHasNeverTurnedSaysWhy() {
        let progress = progress(longestSilence: .zero)
        progress.turn(.grants)
        #expect(progress.refusal == nil)
        progress.refused(.codes, because: StoreError.full())
        #expect(progress.refusal == "the disk of the database is full")
        progress.turn(.codes)
        #expect(progress.refusal == nil)
    }

    /// The reader of `/readyz` learns the cause, and not only who suffers from it.
    @Test func theCauseComesFirst() {
        let progress = progress(longestSilence: .zero)
        for lane in [Lane.grants, .codes] { progress.turn(lane) }
        #expect(progress.trouble() == nil)
        pass(.seconds(6))
        progress.refused(.codes)
        #expect(progress.trouble() == "no progress: codes, grants")
        progress.refused(.codes, because: StoreError.full())
        progress.refused(.grants, because: StoreError.busy)
        pass(.seconds(1))
        progress.refused(.codes, because: StoreError.full())
        #expect(progress.trouble() == "the disk of the database is full; no progress: codes, grants")
        let known = "backends cannot insert: the disk of the database is full"
        #expect(progress.trouble(besides: known) == "no progress: codes, grants", "a reader of both hears it once")
        progress.turn(.codes)
        #expect(progress.trouble() == "the database is locked by another program; no progress: grants")
    }
}
