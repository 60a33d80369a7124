// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Testing

@Suite struct SeededGeneratorTests {
    /// The first numbers of SplitMix64 as its authors publish them for this seed.
    @Test func theNumbersAreThoseOfSplitMix64() {
        var generator = SeededGenerator(seed: 1_234_567)
        #expect((0..<3).map { _ in generator.next() } == [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423])
    }

    @Test func theSameSeedGivesTheSameNumbers() {
        var (first, second, other) = (SeededGenerator(seed: 7), SeededGenerator(seed: 7), SeededGenerator(seed: 8))
        let numbers = (0..<100).map { _ in first.next() }
        #expect(numbers == (0..<100).map { _ in second.next() })
        #expect(Set(numbers).isDisjoint(with: (0..<100).map { _ in other.next() }))
    }
}
