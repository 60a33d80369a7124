// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

struct ClockTrustTests {
    /// A wall clock and one that never steps, and siwatch's verdict on the first.
    private struct Clocks {
        private(set) var wall = Timestamp(milliseconds: 1_750_000_000_000)
        private(set) var uptime = Duration.seconds(5000)
        private var trust: ClockTrust

        init() { trust = ClockTrust(wall: wall, uptime: uptime) }
        var doubt: ClockTrust.Doubt? { mutating get { trust.look(wall: wall, uptime: uptime) } }
        var knowsApple: Bool { mutating get { trust.knowsAppleTime(wall: wall, uptime: uptime) } }
        var needsApple: Bool { trust.needsApple }
        var byApple: Timestamp { mutating get { trust.appleTime(wall: wall, uptime: uptime) } }

        mutating func pass(_ duration: Duration) {
            wall = wall.advanced(by: duration)
            uptime += duration
        }

        mutating func step(by duration: Duration) { wall = wall.advanced(by: duration) }

        mutating func hearApple(ahead skew: Duration = .zero, isExact: Bool = true) {
            trust.hear(apple: wall.advanced(by: skew), isExact: isExact, wall: wall, uptime: uptime)
        }
    }

    @Test func aYoungProcessTrustsItOnceAppleAgreesOrAfterAnHourWithoutAStep() {
        var (informed, clocks) = (Clocks(), Clocks())
        #expect(informed.doubt == .unproven)
        informed.hearApple()
        #expect(informed.doubt == nil)
        clocks.pass(.seconds(3599))
        #expect(clocks.doubt == .unproven)
        clocks.pass(.seconds(1))
        #expect(clocks.doubt == nil)
    }

    @Test(arguments: [Duration.seconds(8 * 86_400), .seconds(61), .seconds(-61), .seconds(-8 * 86_400)])
    func aStepCostsAnHour(_ step: Duration) {
        var clocks = Clocks()
        clocks.pass(.seconds(7200))
        #expect(clocks.doubt == nil)
        clocks.step(by: step)
        #expect(clocks.doubt == .stepped)
        clocks.pass(.seconds(3599))
        #expect(clocks.doubt == .stepped)
        clocks.pass(.seconds(1))
        #expect(clocks.doubt == nil)
    }

    @Test func aSecondStepBeginsTheHourAnew() {
        var clocks = Clocks()
        clocks.step(by: .seconds(8 * 86_400))
        #expect(clocks.doubt == .stepped)
        clocks.pass(.seconds(60))
        clocks.step(by: .seconds(-8 * 86_400))
        #expect(clocks.doubt == .stepped)
        clocks.pass(.seconds(3599))
        #expect(clocks.doubt == .stepped)
    }

    /// Apple's time and the time that has passed since tell a right clock from a wrong one at once, in both directions.
    @Test(arguments: [Duration.seconds(8 * 86_400), .seconds(301), .seconds(-301), .seconds(-3600)])
    func withApplesClockNothingIsWaitedFor(_ step: Duration) {
        var clocks = Clocks()
        clocks.hearApple()
        clocks.pass(.seconds(3600))
        clocks.step(by: step)
        #expect(clocks.doubt == .skewed)
        clocks.pass(.seconds(86_400))
        #expect(clocks.doubt == .skewed)
        clocks.step(by: .zero - step)
        #expect(clocks.doubt == nil)
    }

    @Test func whatAppleShowedLaterCounts() {
        var clocks = Clocks()
        clocks.hearApple(ahead: .seconds(301))
        #expect(clocks.doubt == .skewed)
        clocks.hearApple(ahead: .seconds(-299))
        clocks.hearApple(ahead: .seconds(-299))
        #expect(clocks.doubt == nil)
    }

    @Test func appleIsForgottenAfterAWeek() {
        var clocks = Clocks()
        clocks.hearApple(ahead: .seconds(86_400))
        clocks.pass(.seconds(7 * 86_400 - 1))
        #expect(clocks.doubt == .skewed)
        clocks.pass(.seconds(1))
        #expect(clocks.doubt == nil)
        clocks.step(by: .seconds(61))
        #expect(clocks.doubt == .stepped)
    }

    /// Apple's last quick answer gives Apple's time. After a step, of the wall clock or of the clock that never steps, it may be too late.
    @Test(arguments: [Duration.seconds(90), .seconds(-90)]) func applesTimeIsThatOfItsLastAnswer(_ skew: Duration) {
        var clocks = Clocks()
        #expect(clocks.byApple == clocks.wall)
        #expect(clocks.knowsApple == false)
        clocks.hearApple(ahead: skew)
        #expect(clocks.knowsApple == true)
        clocks.hearApple(ahead: .seconds(7), isExact: false)
        #expect(clocks.byApple == clocks.wall.advanced(by: skew))
        clocks.step(by: .seconds(60))
        clocks.pass(.seconds(3600))
        #expect(clocks.byApple == clocks.wall.advanced(by: skew - .seconds(60)), "no step")
        clocks.step(by: .seconds(61))
        #expect(clocks.byApple == clocks.wall.advanced(by: skew - .seconds(121)))
        clocks.step(by: .seconds(-600))
        #expect(clocks.byApple == clocks.wall)
        clocks.step(by: .seconds(61))
        clocks.hearApple(ahead: skew)
        clocks.hearApple(ahead: skew)
        #expect(clocks.byApple == clocks.wall.advanced(by: skew), "heard after the step")
        clocks.pass(.seconds(7 * 86_400))
        #expect(clocks.byApple == clocks.wall, "a week ago")
        #expect(clocks.knowsApple == false)
    }

    /// One of Apple's servers, or a proxy before it, may have a wrong date.
    @Test(arguments: [Duration.seconds(-3600), .seconds(200)]) func aSingleAnswerWithAnotherDateIsNotBelieved(_ skew: Duration) {
        var clocks = Clocks()
        clocks.hearApple()
        clocks.pass(.seconds(10))
        clocks.hearApple(ahead: skew)
        #expect(clocks.byApple == clocks.wall)
        #expect(clocks.doubt == nil)
        #expect(clocks.needsApple == true)
        clocks.hearApple()
        #expect(clocks.needsApple == false)
        clocks.hearApple(ahead: skew)
        #expect(clocks.byApple == clocks.wall)
        clocks.pass(.seconds(10))
        clocks.hearApple(ahead: skew + .seconds(1))
        #expect(clocks.byApple == clocks.wall.advanced(by: skew + .seconds(1)), "two agree")
    }

    /// The clock that never steps stood still with the machine.
    @Test func anAnswerThatAgreesWithTheWallClockIsBelievedAtOnce() {
        var clocks = Clocks()
        clocks.hearApple()
        clocks.step(by: .seconds(600))
        clocks.hearApple()
        #expect(clocks.byApple == clocks.wall)
        #expect(clocks.needsApple == false)
    }

    @Test func aSlowAnswerTellsTheTimeOfARightClockOnly() {
        var clocks = Clocks()
        clocks.pass(ClockTrust.hold)
        #expect(clocks.doubt == nil)
        #expect(clocks.knowsApple == false)
        clocks.hearApple(ahead: .seconds(-301), isExact: false)
        #expect(clocks.knowsApple == false)
        clocks.hearApple(ahead: .seconds(-299), isExact: false)
        #expect(clocks.knowsApple == true)
    }

    /// NTP slews, and clocks drift.
    @Test func slowChangesAreNoSteps() {
        var clocks = Clocks()
        clocks.pass(.seconds(3600))
        for _ in 1...100 {
            clocks.pass(.seconds(60))
            clocks.step(by: .seconds(5))
            #expect(clocks.doubt == nil)
        }
    }
}
