// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import AppleIdentity

@Suite struct KeyScheduleTests {
    private let start = AppleFixture.now

    private func at(_ seconds: Int) -> Timestamp { start.advanced(by: .seconds(seconds)) }

    /// A schedule that has fetched successfully at these seconds.
    private func schedule(fetchedAt seconds: Int...) -> KeySchedule {
        var schedule = KeySchedule()
        for second in seconds {
            _ = schedule.nextLook(receivedAt: at(second), skew: .zero, now: at(second))
            schedule.fetch(at: at(second))
        }
        return schedule
    }

    @Test func fetchesAtOnceThenHourly() {
        var schedule = KeySchedule()
        #expect(schedule.nextFetch(at: start) == start)
        schedule.fetch(at: start)
        #expect(schedule.nextFetch(at: at(1)) == at(3600))
        #expect(schedule.begin(at: at(3599)) == false)
        #expect(schedule.begin(at: at(3600)) == true)
    }

    @Test func fetchesOnceAtATime() {
        var schedule = KeySchedule()
        #expect(schedule.begin(at: start) == true)
        #expect(schedule.begin(at: at(7200)) == false)
    }

    @Test func repeatsAFailureAfterAMinute() {
        var schedule = KeySchedule()
        schedule.fetch(at: start, succeeds: false)
        #expect(schedule.successes.isEmpty)
        #expect(schedule.nextFetch(at: at(1)) == at(60))
    }

    @Test func anAbsentKeyBringsTheFetchForwardButNeverBelowAMinute() {
        var schedule = schedule(fetchedAt: 0)
        #expect(schedule.nextLook(receivedAt: at(10), skew: .zero, now: at(10)) == at(65))
        #expect(schedule.nextFetch(at: at(10)) == at(60))
        #expect(schedule.nextLook(receivedAt: at(100), skew: .zero, now: at(100)) == at(105))
        #expect(schedule.nextFetch(at: at(100)) == at(60))
    }

    @Test func keysAreFetchedEachMinuteWhileSomebodyWaits() {
        var schedule = schedule(fetchedAt: 0, 100)
        #expect(schedule.nextLook(receivedAt: at(100), skew: .zero, now: at(105)) == at(705), "a fetch ten minutes later")
        for minute in 1...10 {
            #expect(schedule.nextFetch(at: at(100 + 60 * minute)) == at(100 + 60 * minute))
            schedule.fetch(at: at(100 + 60 * minute))
        }
        #expect(schedule.nextLook(receivedAt: at(100), skew: .zero, now: at(705)) == nil)
        #expect(schedule.nextFetch(at: at(706)) == at(700 + 3600))
    }

    @Test func aShortWaitDoesNotEndALongOne() {
        var schedule = schedule(fetchedAt: 0, 100)
        #expect(schedule.nextLook(receivedAt: at(100), skew: .zero, now: at(105)) == at(705))
        #expect(schedule.nextLook(receivedAt: at(106), skew: .zero, now: at(106)) == at(165))
        #expect(schedule.nextFetch(at: at(200)) == at(160))
    }

    @Test func givesUpOnlyAfterTwoFetchesTenMinutesApartSinceReceipt() {
        var schedule = schedule(fetchedAt: 0, 300, 660)
        #expect(schedule.nextLook(receivedAt: at(0), skew: .zero, now: at(661)) == nil)
        #expect(schedule.nextLook(receivedAt: at(1), skew: .zero, now: at(661)) == at(905))
        #expect(schedule.nextLook(receivedAt: at(661), skew: .zero, now: at(661)) == at(725))
    }

    @Test func failuresGiveNothingUp() {
        var schedule = KeySchedule()
        for minute in 0..<60 { schedule.fetch(at: at(60 * minute), succeeds: false) }
        #expect(schedule.nextLook(receivedAt: start, skew: .zero, now: at(3600)) == at(3605))
    }

    @Test func keepsFewTimesHoweverLongItRuns() {
        var schedule = KeySchedule()
        for minute in 0..<1000 {
            _ = schedule.nextLook(receivedAt: at(60 * minute), skew: .zero, now: at(60 * minute))
            schedule.fetch(at: at(60 * minute))
        }
        #expect(schedule.successes.count == 11)
    }

    @Test func aRowFromTheFutureIsJudgedAllTheSame() {
        var schedule = schedule(fetchedAt: 0, 600)
        #expect(schedule.nextLook(receivedAt: at(86_400), skew: .seconds(300), now: at(601)) == nil)
        #expect(schedule.nextLook(receivedAt: at(700), skew: .seconds(300), now: at(601)) == at(665))
    }

    @Test func aClockSetBackStallsNothing() {
        var schedule = schedule(fetchedAt: 0, 600)
        let yesterday = at(-86_400)
        #expect(schedule.nextFetch(at: yesterday) == yesterday)
        #expect(schedule.nextLook(receivedAt: yesterday, skew: .zero, now: yesterday) == yesterday.advanced(by: .seconds(5)))
        schedule.fetch(at: yesterday)
        #expect(schedule.successes == [yesterday])
        #expect(schedule.nextFetch(at: yesterday.advanced(by: .seconds(61))) == yesterday.advanced(by: .seconds(3600)))
    }

    @Test func aClockSetForwardFetchesOnceMore() {
        var schedule = schedule(fetchedAt: 0)
        schedule.fetch(at: at(86_400))
        #expect(schedule.begin(at: at(86_401)) == false)
    }
}

extension KeySchedule {
    fileprivate mutating func fetch(at now: Timestamp, succeeds: Bool = true) {
        let begins = begin(at: now)
        #expect(begins)
        end(succeeded: succeeds)
    }
}
