// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Testing

@testable import CredentialCore

@Suite struct ClientRecordTests {
    private static let now = at(1000)

    private static func at(_ second: Int64) -> Timestamp { Timestamp(seconds: 1_750_000_000 + second) }

    private static func record(_ answers: [ClientAnswer], at now: Timestamp = now) -> ClientRecord {
        answers.reduce(into: ClientRecord()) { $0.hear($1, at: now) }
    }

    @Test func theNewestAnswerCountsInWhateverOrderTheyAreSettled() throws {
        let answers: [ClientAnswer] = [
            .refused(word: "a", at: Self.at(1)), .accepted(at: Self.at(2)), .refused(word: "b", at: Self.at(3)),
            .accepted(at: Self.at(4)), .refused(word: "c", at: Self.at(5)), .refused(word: "d", at: Self.at(6)),
        ]
        #expect(Self.record(answers).refusal == ClientRefusal(since: Self.at(5), at: Self.at(6), word: "d"))
        var generator = SeededGenerator(seed: 1)
        for _ in 1...500 {
            let record = Self.record(answers.shuffled(using: &generator))
            #expect(record.validAt == Self.at(4))
            let refusal = try #require(record.refusal)
            #expect(refusal.at == Self.at(6) && refusal.word == "d")
            #expect(refusal.since == Self.at(5) || refusal.since == Self.at(6), "no refusal before the 200 counts")
        }
    }

    @Test func a200EndsTheRefusal() {
        let refused = ClientAnswer.refused(word: "invalid_client", at: Self.at(1))
        #expect(Self.record([refused, .accepted(at: Self.at(2))]) == ClientRecord(validAt: Self.at(2)))
        #expect(Self.record([.accepted(at: Self.at(2)), refused]) == ClientRecord(validAt: Self.at(2)), "an older refusal")
        #expect(Self.record([refused, .accepted(at: Self.at(1))]).refusal == nil, "equality favours the 200")
        #expect(Self.record([.accepted(at: Self.at(1)), refused]).refusal == nil)
        #expect(Self.record([.accepted(at: Self.at(0)), refused]).refusal?.since == Self.at(1))
    }

    /// The clock was ahead, and an operator has set it back.
    @Test func aMomentFromTheFutureGivesWay() {
        let (future, now) = (Self.at(100), Self.at(10))
        var accepted = ClientRecord(validAt: future)
        accepted.hear(.refused(word: "invalid_client", at: Self.at(9)), at: now)
        #expect(accepted.refusal?.since == Self.at(9))
        accepted.hear(.accepted(at: Self.at(10)), at: now)
        #expect(accepted == ClientRecord(validAt: Self.at(10)))
        var refused = ClientRecord(refusal: ClientRefusal(since: future, at: future, word: "a"))
        refused.hear(.refused(word: "b", at: Self.at(8)), at: now)
        #expect(refused.refusal == ClientRefusal(since: Self.at(8), at: Self.at(8), word: "b"))
        refused = ClientRecord(refusal: ClientRefusal(since: future, at: future, word: "a"))
        refused.hear(.accepted(at: Self.at(9)), at: now)
        #expect(refused.refusal == nil)
    }

    @Test(arguments: [
        ("invalid_client", true), ("invalid_client: bad key", true), ("unauthorized_client", true), ("invalid_grant", false),
        ("status 503", false), ("the client secret cannot be signed", false), ("", false),
    ])
    func onlyApplesErrorsRefuseAClient(_ text: String, _ isWord: Bool) {
        #expect(ClientRefusal.isWord(text) == isWord)
    }
}

/// A settlement whose app or client is missing would take a row from its queue and write no state. The process stops instead.
@Suite struct ClientDirectoryTests {
    @Test func aSettlementOfAMissingAppStopsTheProcess() async throws {
        let end = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = ClientDirectory(apps: [(1, "example")], clients: [(1, "app", 1)]).app("other")
        }
        #expect(String(decoding: end.standardErrorContent, as: UTF8.self).contains("the app other is not in the directory"))
    }

    @Test func aSettlementOfAMissingClientStopsTheProcess() async throws {
        let end = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = ClientDirectory(apps: [(1, "example")], clients: [(1, "app", 1)]).client("web")
        }
        #expect(String(decoding: end.standardErrorContent, as: UTF8.self).contains("the client web is not in the directory"))
    }

    @Test func aKnownAppAndClientAreFound() {
        let directory = ClientDirectory(apps: [(1, "example")], clients: [(7, "app", 1)])
        #expect(directory.app("example").id == 1)
        #expect(directory.client("app").id == 7 && directory.client("app").app.name == "example")
    }
}

@Suite struct RevocationLimitTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    @Test(arguments: [(0, 50), (4_900, 50), (100_000, 1_010)]) func theBoundIsANumberOrAShareOfTheUsers(_ authorized: Int, _ bound: Int) {
        var revocationLimit = RevocationLimit(authorized: authorized)
        let opened = (0..<2_000).count { _ in revocationLimit.letsThrough(under: RevocationLimitRules(), at: Self.now) }
        #expect(opened == bound && revocationLimit.held == 2_000 - bound && revocationLimit.reachedAt == Self.now)
    }

    /// Each proved revocation takes one user from the authorized ones.
    @Test func allUsersAreABoundThatIsNeverReached() {
        var revocationLimit = RevocationLimit(authorized: 3_000)
        for _ in 0..<3_000 {
            #expect(revocationLimit.letsThrough(under: RevocationLimitRules(maxPercentPerHour: 100), at: Self.now) == true)
            revocationLimit.authorized -= 1
        }
    }

    /// Otherwise the hour of a clock that was a year ahead would last a year.
    @Test func aClockThatIsSetBackKeepsTheCountForAnHour() {
        let rules = RevocationLimitRules(maxPerHour: 2)
        var revocationLimit = RevocationLimit()
        #expect(revocationLimit.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(86_400 * 365))) == true)
        #expect(revocationLimit.letsThrough(under: rules, at: Self.now) == true)
        var other = revocationLimit
        #expect(other.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(3_599))) == false)
        #expect(revocationLimit.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(3_600))) == true)
    }
}

@Suite struct SettlementRulesTests {
    private static let start = Timestamp(seconds: 1_750_000_000)
    private static let rules = SettlementRules(policy: RefreshPolicy(), pollInterval: .seconds(1), startedAt: start)

    @Test(arguments: [
        (0, 1), (4, 1), (8, 1), (80, 10), (240, 30), (340, 20), (359, 1), (360, 60), (86_400, 60), (-4, 1), (-80, 10), (-3600, 60),
    ])
    func theLongerItWaitsTheRarerItIsLookedAt(waited: Int, retry: Int) {
        let now = Self.start.advanced(by: .seconds(waited))
        #expect(Self.rules.requestRetry(requestedAt: Self.start, at: now) == .seconds(retry))
    }
}
