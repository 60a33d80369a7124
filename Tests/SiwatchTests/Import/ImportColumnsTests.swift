// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Testing

@testable import siwatch

struct ImportColumnsTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    private func record(_ fields: String..., line: Int = 1) -> CSVRecord { CSVRecord(line: line, fields: fields.map { Array($0.utf8) }) }

    private func columns(_ header: CSVRecord, clientID: String? = nil) throws(CommandFailure) -> ImportColumns {
        try ImportColumns(header: header, clientID: clientID, known: ["app", "web"], now: Self.now)
    }

    @Test(
        arguments: [
            ("1700000000", 1_700_000_000_999, ImportedTime.Unit.seconds),
            ("1700000000123", 1_700_000_000_123, .milliseconds),
            ("2023-11-14T22:13:20Z", 1_700_000_000_999, .text),
            ("2023-11-14 22:13:20.5", 1_700_000_000_500, .text),
            ("2023-11-14 23:13:20.123456+01", 1_700_000_000_123, .text),
            ("2023-11-14T16:43:20.000-05:30", 1_700_000_000_000, .text),
            ("2024-02-29 00:00:00 +0000", 1_709_164_800_999, .text),
        ] as [(String, Int64, ImportedTime.Unit)]
    )
    func aTimeIsReadInItsUnit(_ text: String, _ milliseconds: Int64, _ unit: ImportedTime.Unit) throws {
        let time = try #require(ImportedTime(Array(text.utf8)))
        #expect(time.time.milliseconds == milliseconds && time.unit == unit)
    }

    @Test(arguments: [
        "", "yesterday", "0", "1388534400", "1388534400000", "1700000000000000", "99999999999999999999", "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z", "2023-11-14", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Z!", "2018-01-01T00:00:00Z", "-1700000000",
    ])
    func otherTextIsNoTime(_ text: String) {
        #expect(ImportedTime(Array(text.utf8)) == nil)
    }

    @Test func columnsAreFoundByTheirNames() throws {
        let columns = try columns(record(" Sub ", "plan", "AUD", "refresh_token", "granted_at", "email", "is_private_email"))
        #expect(columns.unknown == ["plan"])
        let line = record("ann", "gold", "app", "r", "1700000000", "a@example.com", "true")
        let (signIn, unit) = try columns.signIn(of: line, in: nil)
        #expect(unit == .seconds)
        #expect(
            signIn
                == ToldSignIn(
                    clientID: "app",
                    userID: "ann",
                    proof: .refreshToken(Secret("r")),
                    address: EmailAddress("a@example.com", isPrivate: true),
                    signedInAt: Timestamp(milliseconds: 1_700_000_000_999)
                )
        )
    }

    /// A later time would outdate what siwatch knows.
    @Test func aLineWithoutATimeIsTheOldestSignIn() throws {
        let columns = try columns(record("user_id", "refresh_token", "granted_at"), clientID: "web")
        let signIn = try columns.signIn(of: record("ann", "", ""), in: .seconds).signIn
        #expect(signIn == ToldSignIn(clientID: "web", userID: "ann", signedInAt: Timestamp.legal.lowerBound))
    }

    @Test(arguments: [
        (["ann", "app", "r"], "3 fields, where the first line has 4"),
        (["", "app", "r", ""], "user_id is empty"),
        (["ann", "", "r", ""], "client_id is empty"),
        (["ann", "other", "r", ""], "no app of the configuration has this client_id"),
        (["ann", "app", "r t", ""], "refresh_token holds a character that no token of Apple's has"),
        (["ann", "app", String(repeating: "r", count: 8193), ""], "refresh_token is longer than 8192 bytes"),
        (["a\0n", "app", "r", ""], "user_id is not UTF-8 text"),
        (["ann", "app", "r", "soon"], "granted_at is no time from 2019 on in seconds, milliseconds or ISO 8601"),
        (["ann", "app", "r", "1700000000123"], "granted_at is in milliseconds, and the column is in seconds"),
        (["ann", "app", "r", "1750000003"], "granted_at lies in the future"),
    ])
    func aBadLineSaysWhy(_ fields: [String], _ problem: String) throws {
        let columns = try columns(record("user_id", "client_id", "refresh_token", "granted_at"))
        let line = CSVRecord(line: 7, fields: fields.map { Array($0.utf8) })
        #expect(throws: BadLine(line: 7, problem: problem)) { try columns.signIn(of: line, in: .seconds) }
    }

    @Test func anotherCompanysColumnsAreRefusedInWords() {
        for (header, clientID, words) in [
            (record("id", "name", "plan"), nil, "the first line names no column user_id (or sub)"),
            (
                record("userid", "refresh_token", "client_id"), nil,
                "no column user_id (or sub), only userid. It names: userid, refresh_token"
            ),
            (record("sub", "refresh_token"), nil, "no column client_id, and no --client-id"),
            (record("sub", "user_id", "refresh_token"), "app", "two columns are the user_id"),
            (record("sub", "aud", "refresh_token"), "app", "leave out --client-id"),
            (record("sub", "refresh_token"), "other", "--client-id: no app of the configuration has other"),
        ] as [(CSVRecord, String?, String)] {
            let failure = #expect(throws: CommandFailure.self) { try columns(header, clientID: clientID) }
            #expect(failure?.code.rawValue == 64 && failure?.description.contains(words) == true, "\(failure?.description ?? "")")
        }
    }

    @Test func theUnitIsThatOfMostLinesAndTheSamplesAreOfAllOfThem() throws {
        let columns = try columns(record("user_id", "client_id", "refresh_token", "granted_at"))
        func survey() -> ImportSurvey {
            var survey = ImportSurvey(columns: columns, seed: "a")
            for line in 2...1001 {
                survey.look(at: record("u\(line)", "app", "r\(line)", line % 10 == 0 ? "1700000000" : "1700000000123", line: line))
            }
            return survey
        }
        let once = survey()
        #expect(once.unit == .milliseconds && once.count == 1000 && once.good == 900 && once.preview.count == 10)
        #expect(!once.samples.isEmpty && once.samples.allSatisfy { $0.line % 10 != 0 })
        // From all over the file, and the same again in a repeated command.
        #expect(once.samples.contains { $0.line > 500 })
        #expect(survey().samples.map { $0.line } == once.samples.map { $0.line })
        #expect(!once.text.contains("r2 ") && once.text.contains("r2… (2 characters)") == true)
    }
}
