// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct OlderTokensTests {
    private static func key(_ number: Int) -> RefreshToken.Key {
        RefreshToken.Key(grantedAt: Timestamp(milliseconds: Int64(number)), fingerprint: Array(repeating: UInt8(number), count: number))
    }

    @Test func theLastEightAreKnownWhateverTheirOrder() {
        var tokens = OlderTokens()
        for number in Array(1...12).shuffled() { tokens.insert(Self.key(number)) }
        #expect(tokens.keys == (5...12).reversed().map(Self.key))
        for number in 1...12 {
            let again = RefreshToken.Key(grantedAt: Timestamp(milliseconds: 99), fingerprint: Self.key(number).fingerprint)
            #expect(tokens.contains(anEarlier: again) == (number >= 5))
            #expect(!tokens.contains(anEarlier: Self.key(number)), "the same sign-in")
        }
    }

    @Test func areWrittenAndReadAgain() {
        var tokens = OlderTokens()
        #expect(tokens.bytes == nil)
        for number in 0...3 { tokens.insert(Self.key(number)) }
        let bytes = tokens.bytes ?? []
        #expect(OlderTokens(bytes) == tokens)
        for length in bytes.indices { #expect(tokens.keys.starts(with: OlderTokens(Array(bytes.prefix(length))).keys)) }
    }
}
