// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

struct CodeRecordTests {
    private func record(_ codes: String) -> CodeRecord { codes.reduce(into: CodeRecord()) { $0.append(isFailure: $1 == "f") } }

    @Test func untilOneHasSucceededNothingIsRevoked() {
        #expect(CodeRecord().doubt == .noneSucceeded)
        #expect(record("f").doubt == .noneSucceeded)
        #expect(record(String(repeating: "f", count: 100)).doubt == .noneSucceeded)
        #expect(record("s").doubt == nil)
    }

    @Test(arguments: [("ssssf", true), ("sssf", false), ("sf", false), ("ssssff", false), ("fssss", true)])
    func aFifthMayFail(_ codes: String, _ mayBeRevoked: Bool) {
        #expect(record(codes).doubt == (mayBeRevoked ? nil : .tooManyFailed))
    }

    @Test func onlyTheLastTwentyCount() {
        let good = String(repeating: "s", count: 1000)
        #expect(record(good + "ffff").doubt == nil)
        #expect(record(good + "fffff").doubt == .tooManyFailed)
        #expect(record(good + "fffff" + String(repeating: "s", count: 16)).doubt == nil)
        // A code has succeeded once, however long ago.
        #expect(record("s" + String(repeating: "f", count: 100)).doubt == .tooManyFailed)
    }
}
