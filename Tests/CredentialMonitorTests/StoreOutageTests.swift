// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import CredentialMonitor

/// A database that is away for an hour leaves a line a minute, and one when it is back.
struct StoreOutageTests {
    private let outage = Outages<String, ContinuousClock.Instant>(.init(reminder: .minutes(1)))
    private let start = ContinuousClock.now

    private func failed(_ lane: String, _ line: String = "claim_failed busy", after seconds: Int) -> Bool {
        outage.failed("", lane, line, at: start + .seconds(seconds)) != nil
    }

    @Test func allLoopsTogetherTellALineAMinute() {
        #expect(failed("grants", after: 0))
        for second in 0...59 {
            for lane in ["grants", "codes", "notifications"] { #expect(!failed(lane, after: second)) }
        }
        #expect(failed("codes", "claim_failed full", after: 59), "another error")
        #expect(failed("codes", after: 60))
    }

    @Test func theDatabaseIsBackWhenItIsBackForAll() {
        for lane in ["grants", "codes"] { _ = failed(lane, after: 0) }
        #expect(outage.answered("", "notifications", at: start + .seconds(1)) == nil, "that table was never locked")
        #expect(outage.answered("", "grants", at: start + .seconds(2)) == nil)
        #expect(outage.answered("", "codes", at: start + .seconds(3)) == OutageNews(failures: 2, lasts: .seconds(3)))
        #expect(outage.answered("", "codes", at: start + .seconds(4)) == nil)
        #expect(failed("codes", after: 5), "a new outage")
    }
}
