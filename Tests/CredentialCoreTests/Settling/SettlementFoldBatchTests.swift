// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Foundation
import Testing

@Suite struct SettlementFoldBatchTests {
    /// Group commit batches settlements by chance, and the result must not depend on it.
    @Test func aBatchIsWhatItsSettlementsAreOneByOne() throws {
        let seed = ProcessInfo.processInfo.environment["FOLD_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0..<1_000_000)
        for seed in seed..<(seed + 300) {
            var traffic = Traffic(seed: seed)
            var (together, apart) = (FoldTables(), FoldTables())
            for _ in 1...6 {
                let (batch, now) = traffic.batch(after: together)
                together = traffic.arrived(in: together)
                apart = traffic.arrived(in: apart)
                let changes = together.settle(batch, at: now)
                let steps = batch.map { apart.settle([$0], at: now) }
                try #require(changes.results == steps.flatMap(\.results), "FOLD_SEED=\(seed)")
                try #require(changes.announcements == steps.flatMap(\.announcements), "FOLD_SEED=\(seed)")
                try #require(together.summary == apart.summary, "FOLD_SEED=\(seed)")
                try #require(together.speakingBreakers == apart.speakingBreakers, "FOLD_SEED=\(seed)")
                try #require(changes.counts.filter { $0.value != 0 } == Self.sum(steps.map(\.counts)), "FOLD_SEED=\(seed)")
                try #require(changes.openedApps == steps.reduce(into: []) { $0.formUnion($1.openedApps) }, "FOLD_SEED=\(seed)")
            }
        }
    }

    private static func sum(_ counts: [[SettlementChanges.StateOfApp: Int]]) -> [SettlementChanges.StateOfApp: Int] {
        counts.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }.filter { $0.value != 0 }
    }

    /// Random settlements of a few users, with valid and invalid claims.
    private struct Traffic {
        private var generator: SeededGenerator
        private var now = FoldTables.start
        private var id: Int64 = 0
        private var newNotifications: Set<Int64> = []
        private var newGrants: [Int64: (WaitingGrant, user: String)] = [:]

        init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

        mutating func batch(after tables: FoldTables) -> ([Settlement], at: Timestamp) {
            now = now.advanced(by: .seconds(Int.random(in: 1...100_000, using: &generator)))
            let batch = (0..<Int.random(in: 1...8, using: &generator)).map { _ in settlement(tables) }
            return (batch.shuffled(using: &generator), now)
        }

        func arrived(in tables: FoldTables) -> FoldTables {
            var tables = tables
            tables.notifications.formUnion(newNotifications)
            for (id, grant) in newGrants {
                tables.grants[id] = grant.0
                tables.grantUsers[id] = grant.user
            }
            // One process claims all of them.
            for user in tables.users.keys { tables.claim(user) }
            return tables
        }

        private mutating func settlement(_ tables: FoldTables) -> Settlement {
            let credential = CredentialID(
                clientID: ["app", "web", "elsewhere"].randomElement(using: &generator)!,
                userID: ["ann", "bob", "canary"].randomElement(using: &generator)!
            )
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: return notification(of: credential)
            case 1: return grant(of: credential)
            default:
                guard let record = tables.record(credential), let token = record.credential.token, let sealed = token.sealed else {
                    return grant(of: credential)
                }
                let app = FoldTables.apps[credential.clientID]!
                var work = DueCredential(id: credential, app: app, claim: .mine, token: token.key, sealed: sealed)
                if let pending = record.pending, Bool.random(using: &generator) { return .admission(work, pending) }
                if Int.random(in: 0..<5, using: &generator) == 0 { work.purpose = .canary }
                work.clientAnswer = clientAnswer()
                return .refresh(work, verdict())
            }
        }

        private mutating func notification(of credential: CredentialID) -> Settlement {
            id += 1
            newNotifications.insert(id)
            let work = ClaimedNotification(id: id, claim: .mine, payload: [1], receivedAt: now)
            let kinds: [Event.Kind] = [.consentRevoked, .accountDeleted, .emailDisabled(EmailAddress("a@b")), .unknown]
            let event = Event(kinds.randomElement(using: &generator)!, at: recently())
            let (client, user) = (credential.clientID, credential.userID)
            let verified = VerifiedNotification(clientID: client, userID: user, tokenID: "jti\(id)", type: "type", event: event)
            let verdicts: [NotificationVerdict] = [
                .verified(verified), .verified(verified), .postponed(until: now), .rejected(.expired, detail: ""),
            ]
            return .notification(work, verdicts.randomElement(using: &generator)!)
        }

        private mutating func grant(of credential: CredentialID) -> Settlement {
            id += 1
            let grantedAt = recently()
            let waiting = WaitingGrant(id: id, clientID: credential.clientID, grantedAt: grantedAt, isOnItsWay: false)
            newGrants[id] = (waiting, credential.userID)
            let token = RefreshToken(
                key: RefreshToken.Key(grantedAt: grantedAt, fingerprint: [UInt8.random(in: 0...3, using: &generator)]),
                sealed: SealedToken(bytes: [1])
            )
            let content = ClaimedGrant.Content(credential: credential, refreshToken: nil, address: nil)
            let importID = [Int64?](arrayLiteral: nil, 1, 1, 2).randomElement(using: &generator)!
            let work = ClaimedGrant(id: id, claim: .mine, grantedAt: grantedAt, importID: importID, content: content)
            let grant = Grant(grantedAt: grantedAt, token: Bool.random(using: &generator) ? token : nil)
            let verdicts: [GrantVerdict] = [
                .accepted(grant, credential), .accepted(grant, credential), .accepted(grant, credential),
                .inFuture(due: now, lookedAt: now), .unknownClient(lookedAt: nil), .rejected(.malformed),
            ]
            return .grant(work, verdicts.randomElement(using: &generator)!)
        }

        private mutating func verdict() -> RefreshVerdict {
            let rejection = PendingRejection(requestedAt: recently(), answeredAt: now, keyID: "KEY")
            let verdicts: [RefreshVerdict] = [
                .valid(requestedAt: recently(), answeredAt: now), .valid(requestedAt: now, answeredAt: now),
                .rejected(rejection, isProven: true), .rejected(rejection, isProven: true), .unclear(answeredAt: now),
                .anotherUser(answeredAt: now), .failed(.unavailable, at: now), .failed(.misconfigured, at: now),
            ]
            return verdicts.randomElement(using: &generator)!
        }

        private mutating func clientAnswer() -> ClientAnswer? {
            let answers: [ClientAnswer?] = [nil, .accepted(at: recently()), .refused(word: "invalid_client", at: recently())]
            return answers.randomElement(using: &generator)!
        }

        private mutating func recently() -> Timestamp { now.advanced(by: .seconds(-Int.random(in: 0...100_000, using: &generator))) }
    }
}
