// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Crypto
import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// The daemon asks Apple about its keys at a start, and only tells of the answer.
struct KeyTrialTests {
    @Test(.site(onEach: SiteDatabase.allCases, listen: "127.0.0.1:0")) func eachClientIsAskedAboutOnceAtAStart() async throws {
        for starts in 1...2 {
            try await site.daemon { daemon in
                let pages = try await OperationsPages(of: daemon)
                let document = try await pages.document { $0.health == "healthy" && $0.trials.count == 2 }
                #expect(document.health == "healthy")
                #expect(document.trials.map(\.clientId) == SimulatedApple.clientIDs)
                #expect(document.trials.allSatisfy { $0.verdict == "accepted" && $0.keyId == SimulatedApple.keyID && $0.words == nil })
                #expect(try await pages.get("").contains(/client com\.example\.web +accepted with the key ABC123DEFG, asked/))
                #expect(await daemon.line(containing: #""event":"client_accepted""#) != nil)
                #expect(try await site.apple.send(ReadCounters()).clientCredentials == ["200": 2 * starts])
            }
        }
    }

    /// No state, no breaker and no pause follows from the answer. A reload with the right key asks at once.
    @Test(.site(listen: "127.0.0.1:0")) func aRefusalIsAFindingAndMovesNothing() async throws {
        let file = site.folder.url.appending(path: SimulatedApple.keyFile)
        let right = try Data(contentsOf: file)
        try Data(P256.Signing.PrivateKey().pemRepresentation.utf8).write(to: file)
        try await site.daemon { daemon in
            let pages = try await OperationsPages(of: daemon)
            let document = try await pages.document { $0.health == "degraded" && $0.trials.count == 2 }
            #expect(document.health == "degraded")
            #expect(document.trials.allSatisfy { $0.verdict == "refused" && $0.words == "invalid_client" })
            let findings = document.findings.filter { $0.sentence.contains(": Apple does not accept com.example.") }
            #expect(findings.count == 2 && findings.allSatisfy { $0.severity == "degraded" && $0.runbook == "siwatchapppaused" })
            #expect(await daemon.line(containing: #""event":"client_refused""#)?.contains("invalid_client") == true)

            let status = try await site.folder.siwatch("status").output
            #expect(status.contains { $0.contains(/^  breaker +closed, 0 of the last 0 answers are rejections$/) }, "\(status)")
            #expect(try await !pages.get("metrics").contains("siwatch_app_paused{app=\"example\"} 1"))
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_change") == 0)

            try right.write(to: file)
            daemon.signal(SIGHUP)
            let after = try await pages.document { $0.health == "healthy" && $0.trials.allSatisfy { $0.verdict == "accepted" } }
            #expect(after.health == "healthy" && after.trials.count == 2)
        }
        #expect(try await site.apple.send(ReadCounters()).clientCredentials == ["400": 2, "200": 2])
    }

    @Test(.site(listen: "127.0.0.1:0")) func anAppleWithoutAnAnswerIsNoFinding() async throws {
        try await site.apple.script(.answer(503).ofClientCredentials)
        try await site.daemon { daemon in
            let pages = try await OperationsPages(of: daemon)
            let document = try await pages.document { $0.health == "healthy" && $0.trials.count == 2 }
            #expect(document.health == "healthy")
            #expect(document.trials.allSatisfy { $0.verdict == "unanswered" && $0.words == "status 503" })
        }
        #expect(try await site.apple.send(ReadCounters()).clientCredentials == ["503": 2], "the next question is ten minutes away")
    }
}

/// What siwatch concludes from an `invalid_client`.
struct ClientDiagnosisTests {
    private func diagnosis(_ clientID: String = "com.example.web", file: String = "/etc/AuthKey_ABC123DEFG.p8") -> ClientDiagnosis {
        var app = ConfigurationTests.least.apps[0]
        app.keys[0].file = file
        return ClientDiagnosis(app: app, clientID: clientID, words: "invalid_client")
    }

    @Test func whatAppleSaidIsAlwaysThere() {
        let sentence = diagnosis().finding.sentence
        #expect(sentence.hasPrefix("Apple refuses com.example.web with the key ABC123DEFG of the team A1B2C3D4E5 (invalid_client)"))
        #expect(diagnosis().finding.severity == .down)
    }

    @Test func anAcceptedNeighbourProvesTheKey() {
        var wrong = diagnosis()
        wrong.accepted = "com.example.app"
        #expect(wrong.finding.sentence.hasSuffix("and accepts com.example.app with the same key: the client id is wrong"))
    }

    @Test func theNameOfTheFileContradictsTheKeyID() {
        #expect(diagnosis(file: "/etc/AuthKey_XYZ987WVUT.p8").finding.sentence.hasSuffix(": the file is named for the key XYZ987WVUT"))
        #expect(!diagnosis(file: "/etc/apple.p8").finding.sentence.contains("named for"))
    }

    @Test func theOwnerOfTheKeyIsNamed() {
        var wrong = diagnosis()
        wrong.elsewhere = .key(app: "other", teamID: "Z1B2C3D4E5", clientID: "com.other.app")
        let words = "this key belongs to the team Z1B2C3D4E5 of the app other, because Apple accepts com.other.app with it"
        #expect(wrong.finding.sentence.hasSuffix(words))
        wrong.elsewhere = .key(app: "other", teamID: "A1B2C3D4E5", clientID: "com.other.app")
        #expect(wrong.finding.sentence.contains("this key belongs to the app group of the app other"))
    }
}
