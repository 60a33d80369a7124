// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

/// Only `reveal` turns a secret into text.
@Suite struct SecretTests {
    private struct Envelope: Sendable {
        var secret = Secret("tok-en")
        var maybe: Secret? = Secret("tok-en")
        var many = [Secret("tok-en")]
        var named = ["key": Secret("tok-en")]
        var content = ClaimedGrant.Content(
            credential: CredentialID(clientID: "com.example.app", userID: "001"),
            refreshToken: Secret("tok-en"),
            address: nil
        )
    }

    private struct Failure: Error {
        var secret = Secret("tok-en")
    }

    @Test func revealIsTheText() {
        #expect(Secret("tok-en").reveal == "tok-en")
    }

    @Test func equalSecretsHoldEqualText() {
        #expect(Secret("tok-en") == Secret("tok-en"))
        #expect(Secret("tok-en") != Secret("to-ken"))
    }

    @Test func itNeverPrintsItself() {
        expectSilence(of: Secret("tok-en"))
    }

    @Test func itNeverPrintsInsideAnother() {
        expectSilence(of: Envelope())
        expectSilence(of: Secret("tok-en") as Secret?)
        expectSilence(of: (1, Secret("tok-en")))
        expectSilence(of: Result<Int, Failure>.failure(Failure()))
        expectSilence(of: ScriptedCall.refresh(Secret("tok-en")))
    }

    @Test func noMirrorShowsIt() {
        let mirror = Mirror(reflecting: Secret("tok-en"))
        #expect(mirror.children.isEmpty)
        #expect(mirror.superclassMirror == nil)
        #expect(mirror.displayStyle == nil)
    }

    private enum ScriptedCall {
        case refresh(Secret)
    }

    private func expectSilence(of value: some Any, sourceLocation: SourceLocation = #_sourceLocation) {
        var dumped = ""
        dump(value, to: &dumped)
        let texts = [
            "\(value)", String(describing: value), String(reflecting: value), dumped,
            String(format: "%@", "\(value)"), "\(Mirror(reflecting: value).children.map { "\($0)" })",
        ]
        for text in texts {
            #expect(!text.contains("tok-en"), sourceLocation: sourceLocation)
        }
        #expect(dumped.contains("[secret]"), sourceLocation: sourceLocation)
    }
}
