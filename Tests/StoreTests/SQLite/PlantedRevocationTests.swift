// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@testable import CredentialTables

/// A member of the group writes into the file what lets siwatch revoke more tokens at Apple.
@Suite(.eachStore, .on(.file), .timeLimit(.minutes(10))) struct PlantedRevocationTests: PlantedSuite {
    @Test func aConfirmationByHandCountsAsNone() async throws {
        _ = try await ask("a", "b", "c", "d")
        _ = try await store.ask(.confirmRevocations(app: "example", count: 1), at: Self.now)
        // The proof is another request's.
        let proof = "(SELECT confirmed_proof FROM revocation_queue WHERE confirmed_at IS NOT NULL)"
        let change = "confirmed_at = ?, confirmed_proof = \(proof), held_at = NULL, due_at = 0"
        try await store.run("UPDATE revocation_queue SET \(change) WHERE held_at IS NOT NULL", [.at(Self.now)])
        let settled = try await store.settleRequests(at: Self.now, revocationLimit: Self.rules)
        #expect(settled == [.heldBack(reachesLimit: false), .postponed])
        #expect(planted() == [.confirmation])
        #expect(try await held() == 1)
    }

    @Test func aTokenThatSiwatchHasNotTakenUpIsNotRevoked() async throws {
        try await store.signIn("a", token: "r-a", isAccepted: true)
        try await store.requestRevocation("a", at: Self.asked)
        try await store.run("UPDATE revocation_queue SET opened_at = requested_at")
        try await store.run(
            """
            INSERT INTO revocation (request, client, app, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token, standing,
                                    due_at)
            SELECT q.id, c.client, c.app, c.user_id, q.requested_at, c.token_granted_at, c.token_fingerprint, c.sealed_token,
                   'accepted_before', 0
              FROM credential c JOIN revocation_queue q ON q.user_id = c.user_id
            """
        )
        let work = try await claimTokens()
        #expect(work.map(\.isPlanted) == [true])
        #expect(planted() == [.revocation])
        #expect(try await store.settle(.revocation(work[0], .rejected(.planted)), at: Self.now) == .revocation(.rejected, .planted))
        #expect(try await states() == [["app", "authorized", "granted", .at(.start)]])
        // Nor does its receipt let siwatch revoke another token of the user.
        try await store.signIn("a", token: "other", at: .start + .seconds(1), now: Self.now)
        #expect(try await store.count("revocation") == 0)
        #expect(planted().isEmpty)
    }

    /// Its proof stays in the row. Somebody opens the request anew after the user has signed in again.
    @Test func aConfirmedRequestNamesNoLaterSignIn() async throws {
        _ = try await ask("a", "b", "c")
        _ = try await store.ask(.confirmRevocations(app: "example", count: 1), at: Self.now)
        #expect(try await store.settleRequests(at: Self.now, revocationLimit: Self.rules) == [.postponed])
        let later = Self.now + .hours(2)
        try await store.signIn("c", token: "new", at: Self.now + .hours(1), now: later)
        try await store.run("DELETE FROM revocation WHERE user_id = 'c'")
        try await store.run("UPDATE revocation_queue SET opened_at = NULL, effective_at = 4102444800000, due_at = 0 WHERE user_id = 'c'")
        #expect(try await store.settleRequests(at: later, revocationLimit: Self.rules) == [.revocation(.superseded)])
    }

    @Test func aTimeByHandNamesNoSignInToCome() async throws {
        try await store.signIn("a", token: "r-a")
        try await store.requestRevocation("a", at: Self.asked)
        try await store.run("UPDATE revocation_queue SET effective_at = 4102444800000")
        #expect(try await store.settleRequests(at: Self.now) == [.postponed])
        #expect(try await store.column("SELECT requested_at FROM revocation") == [.at(Self.now + SettlementRules.longestLead)])
    }

    @Test func aTokenThatIsGivenUpOpensNoOther() async throws {
        try await open("a", clients: "app")
        let work = try await claimTokens()
        #expect(try await store.settle(.revocation(work[0], .rejected(.poison)), at: Self.now) == .revocation(.rejected, .poison))
        try await store.signIn("a", client: "web", token: "other", at: .start, now: Self.now)
        #expect(try await store.count("revocation") == 0)
        #expect(planted().isEmpty)
    }

    /// A token that is told after a revocation of its sign-in is revoked without the limit.
    @Test func aReceiptByHandRevokesNothingBesidesTheLimit() async throws {
        try await store.run(
            """
            INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, token_granted_at, effective_at, settled_at, outcome)
            VALUES (9, 'example', 'app', 'a', ?, ?, ?, ?, 'proved')
            """,
            [.at(Self.asked), .at(.start), .at(Self.asked), .at(Self.asked)]
        )
        try await store.signIn("a", token: "r-a", now: Self.now)
        #expect(try await store.count("revocation") == 0)
        #expect(try await store.count("revocation_queue WHERE opened_at IS NULL") == 1)
        #expect(planted() == [.revocation])
    }

    @Test(arguments: [
        "revocation_hour_at = NULL, revocations_opened = 0, revocations_held_at = NULL, revocations_held = 0, revocations_proof = NULL",
        "revocations_held_at = NULL", "revocations_opened = 0, revocations_held_at = NULL",
    ])
    func theCountIsNotReset(_ change: String) async throws {
        #expect(try await ask("a", "b", "c") == [.postponed, .postponed, .heldBack(reachesLimit: true)])
        try await store.run("UPDATE app SET \(change) WHERE name = 'example'")
        #expect(try await ask("d") == [.heldBack(reachesLimit: false)])
        #expect(planted() == [.limit])
        #expect(try await store.ports.apps().map(\.revocationsHeld) == [2, 0])
        #expect(try await ask("e") == [.heldBack(reachesLimit: false)])
        #expect(planted().isEmpty, "siwatch has put it right")
    }

    /// Each has its proof, and was true.
    @Test func anOlderCountDoesNotCount() async throws {
        #expect(try await ask("a") == [.postponed])
        let columns = ["revocation_hour_at", "revocations_opened", "revocations_held_at", "revocations_held", "revocations_proof"]
        let older = try await store.rows("SELECT \(columns.joined(separator: ", ")) FROM app WHERE name = 'example'")
        #expect(try await ask("b") == [.postponed])
        try await store.run("UPDATE app SET \(columns.map { "\($0) = ?" }.joined(separator: ", ")) WHERE name = 'example'", older[0])
        #expect(try await ask("c") == [.heldBack(reachesLimit: true)])
        #expect(planted() == [.limit])
    }

    @Test func aProcessThatDoesNotKnowTheCountLetsNoneThrough() async throws {
        #expect(try await ask("a") == [.postponed])
        store.ports.trust(PlainSealer(), since: Self.now, nil)
        try await store.run("UPDATE app SET revocations_opened = 0 WHERE name = 'example'")
        #expect(try await ask("b") == [.heldBack(reachesLimit: false)])
        #expect(planted() == [.limit])
    }

    /// Each count has its proof, and was true. Somebody has ended the process, and has put the older one back, or nothing in its place.
    @Test(arguments: [true, false])
    func aStartMakesNoOlderCountTrue(isRemoved: Bool) async throws {
        let memory = KeptDecisions()
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("a") == [.postponed])
        let columns = ["revocation_hour_at", "revocations_opened", "revocations_held_at", "revocations_held", "revocations_proof"]
        let older = try await store.rows("SELECT \(columns.joined(separator: ", ")) FROM app WHERE name = 'example'")
        #expect(try await ask("b") == [.postponed])

        store.ports.trust(PlainSealer(), since: Self.now, memory)
        let values = isRemoved ? [.null, .integer(0), .null, .integer(0), .null] : older[0]
        try await store.run("UPDATE app SET \(columns.map { "\($0) = ?" }.joined(separator: ", ")) WHERE name = 'example'", values)
        #expect(try await ask("c") == [.heldBack(reachesLimit: false)])
        #expect(planted() == [.limit])
    }

    @Test func aStartGoesOnWithTheCount() async throws {
        let memory = KeptDecisions()
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("a") == [.postponed])
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("b", "c") == [.postponed, .heldBack(reachesLimit: true)])
        #expect(planted().isEmpty)
    }

    @Test func aMemoryThatIsBehindLetsNothingThrough() async throws {
        let memory = KeptDecisions()
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("a") == [.postponed])
        let behind = memory.load()
        #expect(try await ask("b") == [.postponed])
        memory.save(try #require(behind))
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("c") == [.heldBack(reachesLimit: false)])
    }

    /// The process may end before its commit or after it.
    @Test func theMemoryHoldsBothCountsMeanwhile() {
        let (memory, row) = (KeptDecisions(), DecisionRow(.limit, 1))
        func proof(_ decision: Decision) -> [UInt8] { PlainSealer().prove(decision) }
        let counts = (1...3).map { Decision.limit(app: 1, RevocationLimit(opened: $0)) }
        func believes(_ count: Decision) -> Bool {
            let book = DecisionBook(isOnlyWriter: true)
            book.trust(PlainSealer(), since: Self.now, memory)
            book.register([1: "example"])
            if case .stored = book.belief(in: count, by: proof(count), of: row, isInitial: false) { return true }
            return false
        }
        let book = DecisionBook(isOnlyWriter: true)
        book.trust(PlainSealer(), since: Self.now, memory)
        book.register([1: "example"])
        book.begin()
        _ = book.belief(in: counts[0], by: proof(counts[0]), of: row, isInitial: false)
        book.end(.committed)
        book.begin()
        _ = book.write(counts[1], in: row)
        book.prepare()
        #expect(counts.map(believes) == [true, true, false])
        book.end(.committed)
        #expect(counts.map(believes) == [false, true, false])
    }

    @Test func theMemoryOfAnotherDatabaseDoesNotCount() async throws {
        let memory = KeptDecisions()
        memory.save(#"{"databases":{"01":{"limit example":[[1]]}}}"#)
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("a") == [.postponed])
        #expect(planted().isEmpty)
        #expect(memory.load()?.contains(#""01":{"limit example":[[1]]}"#) == true, "it stays, for its own database")
    }

    /// After the start and before the first request.
    @Test func anotherNameDoesNotHideTheCount() async throws {
        let memory = KeptDecisions()
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        #expect(try await ask("a") == [.postponed])
        store.ports.trust(PlainSealer(), since: Self.now, memory)
        let reset = "revocation_hour_at = NULL, revocations_opened = 0, revocations_proof = NULL"
        try await store.run("UPDATE app SET name = 'another', \(reset) WHERE name = 'example'")
        #expect(try await ask("b") == [.heldBack(reachesLimit: false)])
        #expect(planted() == [.limit])
    }

    @Test func aHigherCountOfUsersRaisesNoLimit() async throws {
        #expect(try await ask("a", "b") == [.postponed, .postponed])
        try await store.run("UPDATE credential_count SET count = 1000000 WHERE state = 'authorized'")
        #expect(try await ask("c") == [.heldBack(reachesLimit: true)])
        #expect(planted() == [.limit])
        #expect(try await store.column("SELECT count FROM credential_count WHERE state = 'authorized'") == [3])
    }

    /// Without `credential_count`, siwatch would have to count the rows that somebody has planted.
    @Test func plantedUsersRaiseNoLimit() async throws {
        #expect(try await ask("a", "b") == [.postponed, .postponed])
        try await store.run(
            """
            INSERT INTO credential (user_id, client, app, state, reason, changed_at)
            WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 1000)
            SELECT 'planted-' || n, client, app, 'authorized', 'granted', changed_at FROM number, credential WHERE user_id = 'a'
            """
        )
        try await store.run("UPDATE credential_count SET count = 1003 WHERE state = 'authorized'")
        #expect(try await ask("c") == [.heldBack(reachesLimit: true)])
        #expect(planted() == [.limit])
    }

    @Test func aProcessThatHasNotCountedBelievesInNoUsers() async throws {
        store.ports.trust(PlainSealer(), since: Self.now, nil)
        try await store.run("UPDATE credential_count SET count = 1000000 WHERE state = 'authorized'")
        #expect(try await ask("a", "b", "c").last == .heldBack(reachesLimit: true))
    }

    @Test func whatAnErasureTakesIsCounted() async throws {
        #expect(try await ask("a", "b") == [.postponed, .postponed])
        try await store.signIn("gone", token: "r-gone")
        let erasure = ErasureRequest(of: "gone", in: nil, as: "forgotten:gone", evenIfAuthorized: true, found: PersonalData())
        _ = try await store.ask(.forget(erasure), at: Self.now)
        #expect(try await ask("c") == [.heldBack(reachesLimit: true)])
        #expect(planted().isEmpty)
    }

    @Test func aTokenOfAnotherAppIsNotRevoked() async throws {
        try await open("a", clients: "app")
        try await store.run("UPDATE revocation SET app = (SELECT id FROM app WHERE name = 'other')")
        #expect(try await claimTokens().map(\.isPlanted) == [true])
        #expect(planted() == [.revocation])
    }

    @Test func whatASavepointTakesBackIsNotCounted() {
        struct Refused: Error {}
        let book = DecisionBook(isOnlyWriter: true)
        book.trust(PlainSealer(), since: Self.now, nil)
        book.beginCounts(of: [1], with: [1: 5])
        book.begin()
        #expect(throws: Refused.self) {
            try book.inSavepoint {
                book.count(-1, authorizedOf: 1)
                throw Refused()
            }
        }
        book.end(.committed)
        #expect(book.authorized(of: 1, kept: 5).believed == 5)
    }

    /// The rows hold the count before the commit or after it.
    @Test func aCommitWithoutAnAnswerPlantsNothing() {
        let book = DecisionBook(isOnlyWriter: true)
        book.trust(PlainSealer(), since: Self.now, nil)
        book.beginCounts(of: [1], with: [1: 5])
        book.begin()
        book.count(2, authorizedOf: 1)
        book.end(.unknown)
        #expect(book.authorized(of: 1, kept: 7).believed == 7)
        #expect(book.takePlanted().isEmpty)
    }
}
