// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import NIOConcurrencyHelpers
import Testing

/// What becomes of sealed bytes when a sealing key is new, and when one is lost.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct SealedBlobTests: RevocationSuite {
    private static let old = PlainSealer.keyID(of: PlainSealer.onlyKey)
    private static let new = PlainSealer.keyID(of: "knew")
    private static let newSecret = Array("sknewd secret".utf8)

    private static func seal(_ blob: SealedBlob) throws -> [UInt8]? {
        switch blob {
        case .token(let sealed, let credential, let grantedAt):
            let ring = PlainSealer { ["knew", PlainSealer.onlyKey] }
            return try ring.reseal(sealed, for: credential, grantedAt: grantedAt)?.bytes
        case .secret(let sealed, _): return sealed == newSecret ? nil : newSecret
        }
    }

    /// Nine credentials of eight users, a former token, two tokens to revoke and a secret.
    private func fill() async throws {
        _ = try store.ports.sealedSecret(named: "token-fingerprint") { Array("sealed secret".utf8) }
        for user in 1...7 { try await store.signIn("user\(user)", token: "r\(user)") }
        try await store.signIn("user1", token: "newer", at: .start + .minutes(1))
        try await open("leaving", clients: "app", "web")
    }

    /// Walks all tables.
    private func walk() async throws -> Int {
        var resealed = 0
        while true {
            let portion = try await store.ports.reseal(upTo: 3) { try Self.seal($0) }
            resealed += portion.resealed
            if portion.isDone { return resealed }
        }
    }

    @Test func everyValueIsSealedAnewAndOpens() async throws {
        try await fill()
        let told = CredentialID(clientID: "app", userID: "told")
        try await store.grant("told", sealed: PlainSealer().deliver(Secret("t"), for: told, at: Timestamp(milliseconds: 1)))
        let ofBackends = PlainSealer.keyID(of: "eliv")
        #expect(try await store.ports.sealedBlobs() == [Self.old: 13, ofBackends: 1])
        #expect(try await walk() == 13)
        #expect(try await store.ports.sealedBlobs() == [Self.new: 13, ofBackends: 1])
        #expect(try await walk() == 0)
        let sealer = PlainSealer { ["knew"] }
        let due = try await store.claimCredentials(at: .start + .days(2))
        let tokens = try due.map { try sealer.open($0.sealed, for: $0.id, grantedAt: $0.token.grantedAt).reveal }
        #expect(Set(tokens).isSuperset(of: ["newer", "r2", "r3", "r4", "r5", "r6", "r7"]))
        let leaving = try await claimTokens()
        #expect(try leaving.map { try sealer.open($0.sealed, for: $0.id, grantedAt: $0.token.grantedAt).reveal }.count == 2)
    }

    /// A key that is to go need not stay for them.
    @Test func valuesThatDoNotOpenAreCounted() async throws {
        try await fill()
        let told = CredentialID(clientID: "app", userID: "told")
        try await store.grant("told", sealed: PlainSealer().deliver(Secret("t"), for: told, at: Timestamp(milliseconds: 1)))
        let isLost: @Sendable (SealedBlob) -> Bool = { blob in
            guard case .token(let sealed, let credential, let grantedAt) = blob else { return false }
            return (try? PlainSealer { ["knew", PlainSealer.onlyKey] }.open(sealed, for: credential, grantedAt: grantedAt)) == nil
        }
        #expect(try await store.ports.sealedBlobs(where: isLost) == [:])
        try await store.run("UPDATE credential SET token_granted_at = token_granted_at + 1 WHERE user_id IN ('user2', 'user3')")
        #expect(try await store.ports.sealedBlobs(where: isLost) == [Self.old: 2])
        #expect(try await store.ports.sealedBlobs(where: { _ in true }) == [Self.old: 13], "of siwatch's own alone")
        while try await !store.ports.reseal(upTo: 3, { try? Self.seal($0) }).isDone {
            #expect(try await store.ports.sealedBlobs(where: isLost) == [Self.old: 2], "it does not move the walk that seals")
        }
        #expect(try await store.ports.sealedBlobs(where: { _ in true }) == [Self.old: 2, Self.new: 11])
    }

    /// A start with the old key alone is refused from then on.
    @Test func theSecretIsSealedAnewFirst() async throws {
        try await fill()
        #expect(try await store.ports.reseal(upTo: 3) { try Self.seal($0) } == Resealing(resealed: 1, isDone: false))
        #expect(try store.ports.sealedSecret(named: "token-fingerprint") == Self.newSecret)
    }

    /// The process dies before the portion is written.
    @Test func aPortionIsWrittenWholeOrNotAtAll() async throws {
        try await fill()
        _ = try await store.ports.reseal(upTo: 5) { _ in nil }
        let seen = NIOLockedValueBox(0)
        await #expect(throws: CancellationError.self) {
            try await store.ports.reseal(upTo: 5) { blob in
                let count = seen.withLockedValue { seen in
                    seen += 1
                    return seen
                }
                if count == 3 { throw CancellationError() }
                return try Self.seal(blob)
            }
        }
        #expect(try await store.ports.sealedBlobs() == [Self.old: 13])
        #expect(try await walk() == 12, "all but the secret")
        #expect(try await walk() == 1)
    }

    /// A settlement is committed between the read and the write of a portion.
    @Test func aTokenThatChangesMeanwhileStaysAsItIs() async throws {
        for user in ["ann", "bob", "eve"] { try await store.signIn(user, token: "r-\(user)") }
        _ = try await store.ports.reseal(upTo: 10) { _ in nil }
        let portion = try await store.ports.reseal(upTo: 10) { blob in
            guard case .token(_, let credential, _) = blob else { return nil }
            switch credential.userID {
            case "ann": try await store.signIn("ann", token: "newer", at: .start + .minutes(1))
            case "bob": try await store.notify(.consentRevoked, "bob", at: .start + .minutes(1))
            default: break
            }
            return try Self.seal(blob)
        }
        #expect(portion.resealed == 1, "eve's")
        #expect(try await store.count("credential WHERE user_id = 'bob' AND sealed_token IS NOT NULL") == 0)
        #expect(try await store.ports.sealedBlobs() == [Self.old: 2, Self.new: 1], "the newer token of ann, and the former")
        #expect(try await walk() == 0, "the rest of the walk")
        #expect(try await walk() == 2)
        let due = try await store.claimCredentials(at: .start + .days(2))
        let ann = try #require(due.first { $0.id.userID == "ann" })
        #expect(try PlainSealer { ["knew"] }.open(ann.sealed, for: ann.id, grantedAt: ann.token.grantedAt) == Secret("newer"))
    }

    @Test func countsAreKeptForOthersToRead() async throws {
        try await store.ports.noteSeals(["0a0b0c0d": 2])
        try await store.ports.noteSeals(["0a0b0c0d": 3])
        try await store.ports.noteSealedBlobs(["0a0b0c0d": 7, "11223344": 1], lost: ["11223344": 2], at: .start)
        try await store.ports.noteSealedBlobs(["0a0b0c0d": 8], lost: ["0a0b0c0d": 3], at: .start + .hours(1))
        // Not siwatch's.
        try await store.run("INSERT INTO counter (name, value) VALUES ('sealed.<b>', 1)")
        let counts = try await store.ports.sealedCounts()
        #expect(counts.countedAt == .start + .hours(1))
        #expect(counts.keys == ["0a0b0c0d": SealedCounts.OfKey(blobs: 8, lost: 3, seals: 5)])
        #expect(try await store.ports.overview(Overview.Question(at: .start)).sealed == counts)
        try await store.ports.noteSealedBlobs(["55667788": 8], lost: [:], at: .start)
        #expect(try await store.ports.sealedCounts().keys == ["55667788": SealedCounts.OfKey(blobs: 8)], "a key was retired")
        try await store.ports.noteSeals(["99aabbcc": 0])
        #expect(try await store.ports.sealedCounts().keys["99aabbcc"] == SealedCounts.OfKey(), "it has sealed nothing yet")
    }

    // MARK: A lost key

    private func shownStates() async throws -> [[SQLValue]] {
        let columns = "client_id, user_id, state, reason, changed_at"
        return try await store.rows("SELECT \(columns) FROM credential_state ORDER BY user_id, client_id")
    }

    @Test func withoutTheKeyEveryUserKeepsTheState() async throws {
        try await fill()
        try await store.signIn("left", token: "l", isAccepted: true)
        let asked = Timestamp.start + .days(2)
        try await store.reject("left", at: asked)
        try await store.admit(at: asked + .hours(1))
        try await store.reject("user3", at: asked + .hours(1))
        let states = try await shownStates()
        #expect(states.contains { $0[1] == "left" && $0[3] == "token_rejected" })
        _ = try await store.ports.submit(.dropQuarantined([1]), at: asked)
        try await store.run(
            """
            INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, token_granted_at, settled_at, outcome, effective_at)
            VALUES (99, 'example', 'app', 'back', 1, 1, 1, 'proved', 1)
            """
        )
        try await store.ports.noteSeals([Self.old: 3])
        try await store.ports.noteSealedBlobs([Self.old: 13], lost: [:], at: asked)

        #expect(try await store.ports.abandonTokens(fingerprintKey: Self.newSecret) == 11)
        // The command is alone, and a siwatch that starts afterwards knows nothing of before.
        store.ports.trust(PlainSealer(), since: .earliest, nil)
        #expect(try await shownStates() == states)
        #expect(try await store.ports.sealedBlobs() == [Self.new: 1])
        #expect(try await store.claimCredentials(at: .start + .days(400)).isEmpty)
        #expect(try await store.column("SELECT COUNT(*) FROM credential WHERE due_at IS NOT NULL OR pending_since IS NOT NULL") == [0])
        #expect(try await store.column("SELECT pending FROM app WHERE name = 'example'") == [0])
        #expect(try await store.settleRequests(at: asked + .hours(2)) == [.revocation(.noToken)], "a receipt says so")

        // The same sign-ins, told again.
        try await store.signIn("user2", token: "r2")
        try await store.signIn("left", token: "l")
        #expect(try await store.sealedTokens == 1, "Apple had rejected the other one")
        #expect(try await shownStates() == states)

        // Nothing seems planted that the lost key has proved.
        #expect(try await store.count("operator_request") == 0)
        try await store.signIn("back", token: "b")
        #expect(store.ports.takePlanted() == [])
        let counts = try await store.ports.sealedCounts()
        #expect(counts.countedAt == nil && counts.keys == [Self.old: SealedCounts.OfKey(seals: 3)])
    }
}
