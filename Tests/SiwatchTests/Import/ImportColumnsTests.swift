// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Testing

@testable import siwatch

struct ImportColumnsTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    private func record(_ fields: String..., line: Int = 1) -> CSVRecord { CSVRecord(line: line, fields: fields.map { Array($0.utf8) }) }

    private func columns(_ head: CSVRecord, clientID: String? = nil, grantedAt: String? = nil, anyID: Bool = true) throws -> ImportColumns {
        let known: Set<String> = ["app", "web"]
        return try ImportColumns(header: head, .init(clientID: clientID, grantedAt: grantedAt, anyID: anyID, known: known, now: Self.now))
    }

    @Test(
        arguments: [
            ("1700000000", 1_700_000_000_999, ImportedTime.Unit.seconds), ("1700000000123", 1_700_000_000_123, .milliseconds),
            ("2023-11-14T22:13:20Z", 1_700_000_000_999, .text), ("2023-11-14 22:13:20.5", 1_700_000_000_500, .text),
            ("2023-11-14 23:13:20.123456+01", 1_700_000_000_123, .text), ("2023-11-14T16:43:20.000-05:30", 1_700_000_000_000, .text),
            ("2024-02-29 00:00:00 +0000", 1_709_164_800_999, .text),
            // As Rails, Ruby, PostgreSQL, Python, mail and spreadsheets write them.
            ("2023-11-14 22:13:20 UTC", 1_700_000_000_999, .text), ("2023-11-14 22:13:20.123456 UTC", 1_700_000_000_123, .text),
            ("Tue, 14 Nov 2023 22:13:20.123456789 UTC +00:00", 1_700_000_000_123, .text),
            ("Tue, 14 Nov 2023 23:13:20 +0100", 1_700_000_000_999, .text), ("Fri, 1 May 2026 12:34:56 GMT", 1_777_638_896_999, .text),
            ("2023-11-14 22:13:20.5+00", 1_700_000_000_500, .text), ("2023/11/14 22:13:20", 1_700_000_000_999, .text),
            ("1700000000.123456", 1_700_000_000_123, .seconds), ("1700000000.0", 1_700_000_000_999, .seconds),
            ("1700000000123.0", 1_700_000_000_123, .milliseconds), ("45244.9259259259", 1_700_000_000_999, .days),
        ] as [(String, Int64, ImportedTime.Unit)]
    )
    func aTimeIsReadInItsUnit(_ text: String, _ milliseconds: Int64, _ unit: ImportedTime.Unit) throws {
        let time = try #require(ImportedTime(Array(text.utf8)))
        #expect(time.time.milliseconds == milliseconds && time.unit == unit)
    }

    @Test(arguments: [
        "", "yesterday", "0", "1388534400", "1388534400000", "1700000000000000", "99999999999999999999", "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z", "2023-11-14", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Z!", "2018-01-01T00:00:00Z", "-1700000000",
        // Which is the month, which is the zone, and which digits are lost, nobody knows.
        "03/04/2026 12:34:56", "03.04.2026 12:34", "3/4/26", "1.7E+12", "1.70000E+09", "2023-11-14 22:13:20 CEST", "2023-11/14 22:13:20",
        "45244", "14 Novem 2023 22:13:20", "1700000000.", ".5", "1700000000.1.2", "2023-11-14 10:13:20 PM",
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
        let expected = ToldSignIn(
            clientID: "app",
            userID: "ann",
            proof: .refreshToken(Secret("r")),
            address: EmailAddress("a@example.com", isPrivate: true),
            signedInAt: Timestamp(milliseconds: 1_700_000_000_999)
        )
        #expect(signIn == expected)
    }

    @Test(arguments: ["", "\\N", "NULL", "null", "None", "nil"])
    func aLineWithoutATimeHasTheTimeOfTheOptionOrIsBad(_ empty: String) throws {
        let header = record("user_id", "refresh_token", "granted_at", "email", "email_is_private")
        let line = record("ann", empty, empty, empty, empty)
        let columns = try columns(header, clientID: "web", grantedAt: "2023-11-14T22:13:20Z")
        let signIn = try columns.signIn(of: line, in: .seconds).signIn
        #expect(signIn == ToldSignIn(clientID: "web", userID: "ann", signedInAt: Timestamp(milliseconds: 1_700_000_000_999)))
        #expect(columns.lacksTime(line) && !columns.lacksTime(record("ann", "", "1700000000", "", "")))
        let strict = try self.columns(header, clientID: "web")
        let problem = BadLine(line: 1, problem: "granted_at is empty, and there is no --granted-at")
        #expect(throws: problem) { try strict.signIn(of: line, in: .seconds) }
    }

    @Test func theOptionTakesATimeOfThePastOnly() {
        for (time, words) in [("soon", "--granted-at is no time"), ("1800000000", "--granted-at lies in the future")] {
            let header = record("sub", "refresh_token")
            let failure = #expect(throws: CommandFailure.self) { try columns(header, clientID: "app", grantedAt: time) }
            #expect(failure?.code.rawValue == 64 && failure?.description.hasPrefix(words) == true, "\(failure?.description ?? "")")
        }
    }

    @Test func theVerdictSaysHowManyLinesHaveNoTime() throws {
        for (time, words) in [
            (nil, "2 without granted_at: they are bad lines, because there is no --granted-at."),
            ("1700000000", "2 without granted_at: they count as signed in on 2023-11-14T22:13:20.999Z (--granted-at)."),
        ] as [(String?, String)] {
            var survey = ImportSurvey(columns: try columns(record("sub", "refresh_token", "granted_at"), clientID: "app", grantedAt: time))
            for (line, at) in ["", "1600000000", "NULL"].enumerated() { survey.look(at: record("ann", "r", at, line: line + 2)) }
            #expect(survey.verdict.split(separator: "\n").contains(Substring(words)), "\(survey.verdict)")
            #expect(survey.good == (time == nil ? 1 : 3))
        }
    }

    @Test func aClientThatSiwatchDoesNotKnowIsNoted() throws {
        var survey = ImportSurvey(columns: try columns(record("sub", "aud", "refresh_token", "granted_at")))
        for aud in ["app", "com.example.other", "NULL", "com.example.other"] { survey.look(at: record("ann", aud, "r", "1700000000")) }
        #expect(survey.unknownClients == ["com.example.other"])
        let failure = ImportColumns.unknownClients(["com.example.other", "r.0123456789012345678901234567890123456789"])
        #expect(failure.code.rawValue == 64 && failure.description.contains("com.example.other") && !failure.description.contains("0123"))
    }

    @Test(arguments: [
        (["ann", "app", "r"], "3 fields, where the first line has 4"), (["", "app", "r", ""], "user_id is empty"),
        (["ann", "", "r", ""], "client_id is empty"), (["ann", "other", "r", ""], "siwatch does not know this client_id"),
        (["ann", "app", "r", ""], "granted_at is empty, and there is no --granted-at"),
        (["ann ", "app", "r", ""], "user_id holds white space or a control character"),
        (["a\u{9b}n", "app", "r", ""], "user_id holds white space or a control character"),
        (["ann", "app\t", "r", ""], "client_id holds white space or a control character"),
        (Array(repeating: "a", count: 1001), "more than 1000 fields"),
        (["ann", "app", "r t", ""], "refresh_token holds a character that no token of Apple's has"),
        (["ann", "app", String(repeating: "r", count: 8193), ""], "refresh_token is longer than 8192 bytes"),
        (["a\0n", "app", "r", ""], "user_id is not UTF-8 text"), (["ann", "app", "r", "soon"], "granted_at \(ImportedTime.rule)"),
        (["ann", "app", "r", "1700000000123"], "granted_at is in milliseconds, and the column is in seconds"),
        (["ann", "app", "r", "1750000003"], "granted_at lies in the future"),
    ])
    func aBadLineSaysWhy(_ fields: [String], _ problem: String) throws {
        let columns = try columns(record("user_id", "client_id", "refresh_token", "granted_at"))
        let line = CSVRecord(line: 7, fields: fields.map { Array($0.utf8) })
        #expect(throws: BadLine(line: 7, problem: problem)) { try columns.signIn(of: line, in: .seconds) }
    }

    @Test func aTimeThatCanBeReadInTwoWaysIsRefusedWithAnExample() throws {
        let columns = try columns(record("sub", "refresh_token", "granted_at"), clientID: "app")
        let bad = #expect(throws: BadLine.self) { try columns.signIn(of: record("ann", "r", "03/04/2026 12:00"), in: nil) }
        #expect(bad?.problem.contains("write 2026-04-03T12:34:56Z") == true && bad?.problem.contains("03/04/2026") == true)
    }

    /// No notification of Apple's ever meets another platform's user.
    @Test(arguments: [
        "17", "3f2b8c1e-9d4a-4c56-8f7e-0a1b2c3d4e5f", "apple|\(AppleUserID.example)", AppleUserID.example.uppercased(), "ann@example.com",
        "00123.0123456789abcdef0123456789abcdef.0815", "001234-0123456789abcdef0123456789abcdef-0815",
        "001234.0123456789abcdef0123456789abcdeg.0815",
    ])
    func aUserWhoIsNotApplesIsABadLine(_ user: String) throws {
        let header = record("user_id", "refresh_token", "granted_at")
        let line = record(user, "r", "1700000000", line: 2)
        let bad = #expect(throws: BadLine.self) { try columns(header, clientID: "app", anyID: false).signIn(of: line, in: nil) }
        #expect(bad?.problem == "user_id does not look like Apple's" && bad?.line == 2)
        let shown = user.contains("@") ? "an e-mail address" : "\"\(user)\""
        #expect(bad?.foreign == "user_id is \(shown)")
        #expect(try columns(header, clientID: "app").signIn(of: line, in: nil).signIn.userID == user)
    }

    @Test(arguments: ["provider", "identity_provider", "auth_provider"]) func theProviderOfALineIsApple(_ name: String) throws {
        let columns = try columns(record("sub", "refresh_token", "granted_at", name), clientID: "app", anyID: false)
        for provider in ["apple", "Apple", "apple.com", "https://appleid.apple.com", ""] {
            let line = record(AppleUserID.example, "r", "1700000000", provider)
            #expect(try columns.signIn(of: line, in: nil).signIn.userID == AppleUserID.example)
        }
        let line = record(AppleUserID.example, "r", "1700000000", "google")
        let bad = #expect(throws: BadLine.self) { try columns.signIn(of: line, in: nil) }
        #expect(bad?.problem == "provider is not Apple" && bad?.foreign == "provider is \"google\"")
    }

    /// The column is found by what it holds, whatever its name is.
    @Test func theShareOfStrangersIsSaidWithAnExampleAndTheColumnThatMayBeMeant() throws {
        let header = record("user_id", "refresh_token", "granted_at", "uid", "note")
        var survey = ImportSurvey(columns: try columns(header, clientID: "app", anyID: false))
        for line in 2...4 { survey.look(at: record("\(line)7", "r", "1700000000", AppleUserID.example, "x", line: line)) }
        survey.look(at: record(AppleUserID.example, "r", "1700000000", "", "", line: 5))
        #expect(survey.good == 1 && survey.samples.map { $0.line } == [5])
        let words = """
            3 of 4 lines (75 %) are not of Apple's users, and are bad ones: in line 2 user_id is "27", and Apple's look like \
            \(AppleUserID.example). Is the column uid meant? Name it user_id. --any-id takes these lines too.
            """
        #expect(survey.strangers == words && survey.verdict.split(separator: "\n").contains(Substring(words)), "\(survey.verdict)")
    }

    @Test func aLongValueIsNotShown() throws {
        let columns = try columns(record("user_id", "refresh_token", "granted_at"), clientID: "app", anyID: false)
        let token = "r0123456789abcdef0123456789abcdef.0.mruv.Zw1-abcDEFabcDEF01234"
        let bad = #expect(throws: BadLine.self) { try columns.signIn(of: record(token, "r", "1700000000"), in: nil) }
        #expect(bad?.foreign == "user_id is a long text")
    }

    @Test func anotherCompanysColumnsAreRefusedInWords() {
        for (header, clientID, words) in [
            (record("id", "name", "plan"), nil, "the first line names no column user_id (or sub)"),
            (
                record("userid", "refresh_token", "client_id", "granted_at"), nil,
                "no column user_id (or sub), only userid. It names: userid, refresh_token"
            ),
            (record("sub", "refresh_token"), nil, "no column client_id, and no --client-id"),
            (record("sub", "refresh_token"), "app", "no column granted_at, and no --granted-at. It names: sub, refresh_token"),
            (record("sub", "user_id", "refresh_token"), "app", "two columns are the user_id"),
            (record("sub", "aud", "refresh_token"), "app", "leave out --client-id"),
            (record("sub", "refresh_token", "granted_at"), "other", "siwatch does not know other"),
        ] as [(CSVRecord, String?, String)] {
            let failure = #expect(throws: CommandFailure.self) { try columns(header, clientID: clientID) }
            #expect(failure?.code.rawValue == 64 && failure?.description.contains(words) == true, "\(failure?.description ?? "")")
        }
    }

    /// The first line of a file without a header is a user's.
    @Test func aFirstLineOfValuesIsNotShown() {
        for value in ["r1f6c0d6e8f4.0.mruv.Zw1-abcDEF", "000123.9c2d4e6f.0456", "ann@example.com", "0123456789abcdef0123456789abcdef0"] {
            let failure = #expect(throws: CommandFailure.self) { try columns(record("Ann", value, "1700000000")) }
            let text = failure?.description ?? ""
            #expect(text.hasSuffix("3 columns; the first line is probably not a header"), "\(text)")
            #expect(!text.contains(value) && !text.lowercased().contains("ann"), "\(text)")
        }
    }

    @Test func anIgnoredColumnThatLooksLikeAValueIsNotShown() throws {
        let columns = try columns(record("sub", "refresh_token", "granted_at", "plan", "r.0.secret"), clientID: "app")
        #expect(columns.ignored == "plan, 1 other")
    }

    @Test func aTrialNeedsAnAcceptedSampleAndHalfOfTheAnswers() {
        let user = ToldSignIn(clientID: "app", userID: "ann", proof: .refreshToken(Secret("r")), signedInAt: Self.now)
        func result(_ answers: [TokenAnswer?], erased: Int = 0) -> ImportTrial.Result {
            let tokens: [ImportedToken?] = answers.map { ImportedToken(grantedAt: Self.now, answer: $0, hasFailed: false) }
            let all = tokens + [ImportedToken?](repeating: nil, count: erased)
            return ImportTrial.judge(all.map { _ in user }, all)
        }
        #expect(result([.valid, .rejected]).isGood && result([.valid, nil, nil]).isGood && result([.valid], erased: 9).isGood)
        #expect(!result([.valid, .rejected, .anotherUser]).isGood && !result([nil, nil]).isGood && !result([], erased: 9).isGood)
        let late = ImportedToken(grantedAt: Self.now.advanced(by: .seconds(1)), answer: .valid, hasFailed: false)
        #expect(ImportTrial.judge([user], [late]).outdated == 1)
        let early = ImportedToken(grantedAt: Self.now.advanced(by: .seconds(-1)), answer: .valid, hasFailed: false)
        #expect(ImportTrial.judge([user], [early]).putBack == 1)
        #expect(ImportTrial.judge([user], [nil], retold: [CredentialID(clientID: "app", userID: "ann")]).retold == 1)
    }

    @Test func theUnitIsThatOfMostLinesAndTheSamplesAreOfAllOfThem() throws {
        let columns = try columns(record("user_id", "client_id", "refresh_token", "granted_at"))
        func survey() -> ImportSurvey {
            var survey = ImportSurvey(columns: columns)
            for line in 2...1001 {
                survey.look(at: record("u\(line)", "app", "refresh.\(line)", line % 10 == 0 ? "1700000000" : "1700000000123", line: line))
            }
            return survey
        }
        let once = survey()
        #expect(once.unit == .milliseconds && once.count == 1000 && once.good == 900 && once.preview.count == 10)
        #expect(!once.samples.isEmpty && once.samples.allSatisfy { $0.line % 10 != 0 })
        // From all over the file, and the same again in a repeated command.
        #expect(once.samples.contains { $0.line > 500 })
        #expect(survey().samples.map { $0.line } == once.samples.map { $0.line })
        #expect(once.lines.contains("2  …  app  re… (9 characters)  2023-11-14T22:13:20.123Z  –"), "\(once.lines)")
        #expect(!once.verdict.contains("…"))
    }
}
