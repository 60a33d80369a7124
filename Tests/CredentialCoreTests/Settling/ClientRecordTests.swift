// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// The record of a client after some answers.
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

    @Test(
        arguments: [
            ("invalid_client", true), ("invalid_client: bad key", true), ("unauthorized_client", true), ("invalid_grant", false),
            ("status 503", false), ("the client secret cannot be signed", false), ("", false),
        ]
    )
    func onlyApplesErrorsRefuseAClient(_ text: String, _ isWord: Bool) {
        #expect(ClientRefusal.isWord(text) == isWord)
    }
}
