// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Whose `invalid_grant` is believed.
@Suite struct RevocationBreakerTests {
    private let proven = ClientIdentity(clientID: "com.example.app", keyID: "KEY1")

    @Test func whoHasHadNo200IsNotBelieved() {
        #expect(RevocationBreaker().judgeRejection(by: proven) == .held)
    }

    @Test func whoHasHadA200IsBelieved() {
        var breaker = RevocationBreaker()
        breaker.recordValid(by: proven)
        breaker.recordValid(by: proven)
        #expect(breaker.judgeRejection(by: proven) == .admitted)
        #expect(breaker.judgeRejection(by: proven) == .admitted)
    }

    @Test(arguments: [
        ClientIdentity(clientID: "com.example.web", keyID: "KEY1"),
        ClientIdentity(clientID: "com.example.app", keyID: "KEY2"),
        ClientIdentity(clientID: "KEY1", keyID: "com.example.app"),
    ])
    func a200ProvesOneKeyOfOneClientAlone(_ other: ClientIdentity) {
        var breaker = RevocationBreaker()
        breaker.recordValid(by: proven)
        #expect(breaker.judgeRejection(by: other) == .held)
    }

    /// The configuration loaded anew is a new breaker, even as a copy is one of its own.
    @Test func proofsAreTheValuesOwn() {
        let before = RevocationBreaker()
        var after = before
        after.recordValid(by: proven)
        #expect(before.judgeRejection(by: proven) == .held)
    }
}
