// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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

    @Test func anOperationThatFailsForSecondsIsATrouble() {
        #expect(watch.note("getUser", status: 503, failure: "no room") == .failed)
        #expect(watch.trouble == nil, "a lock may take a moment")
        pass(.seconds(5))
        #expect(watch.note("getUser", status: 503, failure: "no room at all") == nil)
        #expect(watch.note("signIn", status: 200, failure: nil) == nil)
        #expect(watch.trouble == "the HTTP door finds no database for getUser: no room at all")
        // Refused before the database was asked.
        #expect(watch.note("getUser", status: 401, failure: nil) == nil && watch.trouble != nil)
        #expect(watch.note("getUser", status: 200, failure: nil) == .recovered && watch.trouble == nil)
    }

    /// Nobody may ask again for hours.
    @Test func aFailureIsForgottenAfterAMinute() {
        _ = watch.note("endsSession", status: 503, failure: "no room")
        pass(.seconds(59))
        #expect(watch.trouble != nil)
        pass(.seconds(1))
        #expect(watch.trouble == nil)
        #expect(watch.note("endsSession", status: 503, failure: "no room") == .failed)
        #expect(watch.trouble == nil, "it begins anew")
    }
}
