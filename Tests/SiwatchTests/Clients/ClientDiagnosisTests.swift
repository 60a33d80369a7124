// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import siwatch

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
        #expect(
            wrong.finding.sentence.hasSuffix(
                "this key belongs to the team Z1B2C3D4E5 of the app other, because Apple accepts com.other.app with it"
            )
        )
        wrong.elsewhere = .key(app: "other", teamID: "A1B2C3D4E5", clientID: "com.other.app")
        #expect(wrong.finding.sentence.contains("this key belongs to the app group of the app other"))
    }
}
