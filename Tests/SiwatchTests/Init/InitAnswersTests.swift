// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import siwatch

struct InitAnswersTests {
    @Test(arguments: [
        (["com.example.app"], "example"), (["com.example.shop"], "shop"), (["com.example.Shop.iOS", "com.example.web"], "Shop"),
        (["app.web"], "app"),
    ])
    func theAppIsNamedAfterItsProduct(_ clientIDs: [String], _ name: String) { #expect(InitAnswers.appName(of: clientIDs) == name) }

    @Test func aRefusalKeepsTheAnswersOfAPerson() {
        let failure = CommandFailure.failed("Apple refuses")
        let kept = Invocation.$current.withValue(Invocation(arguments: ["init", "--config", "a b"])) {
            failure.keeping(["--team-id", "A1B2C3D4E5", "--webhook", ""])
        }
        #expect(kept.messages.last == "siwatch init --config 'a b' --team-id A1B2C3D4E5 --webhook '' goes on with your answers")
        #expect(failure.keeping([]).messages == failure.messages)
    }
}
