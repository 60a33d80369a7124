// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import NIOConcurrencyHelpers
import Testing

@testable import siwatch

/// What nobody but the backends notices.
struct DoorWatchTests {
    private let now = NIOLockedValueBox(ContinuousClock.now)
    private let watch: DoorWatch

    init() {
        watch = DoorWatch { [now] in now.withLockedValue(\.self) }
    }

    private func pass(_ time: Duration) {
        now.withLockedValue { $0 += time }
    }

    @Test func whatFailsForSecondsIsATrouble() {
        #expect(watch.note(.reading, failure: "no room") == nil)
        pass(.seconds(5))
        #expect(watch.trouble == nil, "one failure is none")
        #expect(watch.note(.reading, failure: "no room at all") == .failed)
        #expect(watch.note(.reading, failure: "no room at all") == nil, "it is told once")
        #expect(watch.note(.writing, failure: nil) == nil)
        #expect(watch.trouble == "the HTTP door finds no database for reading: no room at all")
        #expect(watch.note(.reading, failure: nil) == .recovered && watch.trouble == nil)
    }

    /// Nobody may ask again for hours.
    @Test func aTroubleIsForgottenAfterAMinute() {
        _ = watch.note(.writing, failure: "no room")
        pass(.seconds(59))
        #expect(watch.note(.writing, failure: "no room") == .failed)
        pass(.seconds(59))
        #expect(watch.trouble != nil)
        pass(.seconds(1))
        #expect(watch.trouble == nil)
        #expect(watch.note(.writing, failure: "no room") == nil, "it begins anew")
    }
}
