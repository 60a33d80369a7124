// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct CheckRoundTests {
    private func round(_ tokens: Int, _ rate: Double = 50, every interval: Duration = .seconds(86_400)) -> CheckRound {
        CheckRound(tokens: tokens, requestsPerSecond: rate, interval: interval)
    }

    @Test func tenMillionTakeMoreThanTwoDaysAtFiftyASecond() {
        let round = self.round(10_000_000)
        #expect(round.duration == .seconds(200_000) && !round.fits)
        #expect((2.31...2.32).contains(round.ratio))
        #expect(round.sufficientRate == 128)
        #expect(self.round(10_000_000, 128).ratio < 0.91)
    }

    @Test func aDayIsFullWhenItIsFull() {
        #expect(round(4_320_000).fits)
        #expect(!round(4_320_001).fits)
        #expect(round(0).fits && round(0).sufficientRate == 0)
    }

    /// All values that the configuration accepts.
    @Test(arguments: [(Int.max, 1.0, Duration.milliseconds(1)), (Int.max, 0, .seconds(8_640_000_000)), (1, 1e9, .milliseconds(1))])
    func noFigureIsTooGreat(tokens: Int, rate: Double, interval: Duration) {
        let round = self.round(tokens, rate, every: interval)
        #expect(round.sufficientRate >= 1 && round.duration >= .zero && round.ratio.isFinite)
    }
}
