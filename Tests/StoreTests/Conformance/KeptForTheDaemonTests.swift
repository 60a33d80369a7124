// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct KeptForTheDaemonTests: ConformanceSuite {
    @Test func aSecretIsMadeOnce() async throws {
        #expect(try store.ports.sealedSecret(named: "key") == nil)
        let made = NIOLockedValueBox<UInt8>(0)
        let secrets = try await withThrowingTaskGroup { group in
            for _ in 1...4 {
                group.addTask {
                    try store.ports.sealedSecret(named: "key") {
                        made.withLockedValue { count in
                            count += 1
                            return [count]
                        }
                    }
                }
            }
            return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
        }
        #expect(secrets == [[1]] && made.withLockedValue { $0 } == 1)
        #expect(try store.ports.sealedSecret(named: "key") == [1])
        #expect(try store.ports.sealedSecret(named: "another") == nil)
    }

    /// Somebody who can write the tables may delete the key.
    @Test func aSecretThatIsGoneIsNotMadeAnew() async throws {
        try await store.signIn(token: "r")
        #expect {
            try store.ports.sealedSecret(named: "fingerprint") { [1] }
        } throws: {
            "\($0)".contains("is damaged: the row fingerprint of the table secret is gone")
        }
        #expect(try store.ports.sealedSecret(named: "fingerprint") == nil)
    }

    /// With a shorter interval no credential waits for the end of the longer one, and they do not all come at once.
    @Test func aShorterIntervalCountsFromTheStart() async throws {
        // The first checks of an import spread over a day.
        for user in 1...40 { try await store.signIn("user\(user)", token: "r", at: .start - .days(2), now: .start) }
        let (now, far) = (Timestamp.start + .hours(1), Timestamp.start + .hours(7))
        try await store.run("UPDATE credential SET due_at = ?, failures = 1 WHERE user_id = 'user1'", [.at(far)])
        try await store.run("UPDATE credential SET due_at = ?, claimed_by = 'somebody' WHERE user_id = 'user2'", [.at(far)])
        // The latter by a clock that an operator has since set back.
        for (user, answeredAt) in [("user3", now - .minutes(1)), ("user4", now + .minutes(1))] {
            let answered = "UPDATE credential SET due_at = ?, answered_at = ? WHERE user_id = ?"
            try await store.run(answered, [.at(far), .at(answeredAt), .text(user)])
        }

        let hourly = RefreshPolicy(interval: .hours(1))
        try await store.ports.shortenSchedule(to: hourly, at: now)
        func due(_ condition: String) async throws -> [SQLValue] {
            try await store.column("SELECT due_at FROM credential WHERE user_id \(condition) ORDER BY user_id")
        }
        #expect(try await due("IN ('user1', 'user2', 'user4')") == [.at(far), .at(far), .at(far)])
        #expect(try await due("= 'user3'") == [.at(now + .minutes(59))])
        let others = try await due("NOT IN ('user1', 'user2', 'user3', 'user4')").compactMap(\.integer)
        #expect(others.count == 36 && others.allSatisfy { $0 <= (now + hourly.repetition).milliseconds })
        #expect(Set(others).count > 30)
        // The same interval changes nothing.
        try await store.ports.shortenSchedule(to: hourly, at: now)
        #expect(try await due("NOT IN ('user1', 'user2', 'user3', 'user4')").compactMap(\.integer) == others)
    }

    @Test func aClientDoesNotChangeHands() async throws {
        #expect(throws: StoreOpenError.self) { try store.register("other", ["elsewhere", "app"]) }
        #expect(throws: StoreOpenError.self) { try store.register("renamed", ["app"]) }
        #expect(try await store.column("SELECT name FROM app ORDER BY name") == ["example", "other"])
        #expect(try await store.signIn() == .grant(.applied, nil))
    }

    @Test func anAppHasItsNewNameEverywhere() async throws {
        try await store.signIn(token: "r")
        try await store.notify(.consentRevoked, at: .start + .minutes(1))
        try await store.ports.renameApp("example", to: "new")
        for table in ["user_state", "notification_log", "credential_change"] {
            #expect(try await store.column("SELECT DISTINCT app FROM \(table)") == ["new"])
        }
        await #expect(throws: AppRenameError.unknown("example", known: ["new", "other"])) {
            try await store.ports.renameApp("example", to: "newer")
        }
        await #expect(throws: AppRenameError.taken("other")) { try await store.ports.renameApp("new", to: "other") }
    }

    /// A blamed client whose user withdraws the consent, and a rejected canary whose row an import takes away that is undone.
    @Test(arguments: [false, true]) func aCauseWithoutATokenIsForgotten(_ isCanary: Bool) async throws {
        let now = Timestamp.start + .days(2)
        try await store.signIn("ann", client: "web", token: "r", isAccepted: isCanary)
        try await store.reject("ann", at: now, finding: isCanary ? .rejected : .blamed, canaries: isCanary ? ["ann"] : [])
        let breaker = try #require(try await store.ports.breakers()["example"])
        #expect(breaker.rejectedCanaries.map(\.userID) == (isCanary ? ["ann"] : []))
        #expect(breaker.blamedClients == (isCanary ? [] : ["web"]))
        #expect(try await !store.ports.forgetDryCauses(at: now), "a good answer may come")

        let end = isCanary ? now : now + .days(1)
        if isCanary {
            try await store.run("DELETE FROM credential")
        } else {
            try await store.notify(.consentRevoked, "ann", client: "web", at: end)
        }
        #expect(try await store.ports.forgetDryCauses(at: end))
        #expect(try await store.ports.breakers()["example"]?.isOpen == false)
        #expect(try await !store.ports.forgetDryCauses(at: end))
    }

    @Test func aClientThatIsConfiguredNoMoreIsNotBlamed() async throws {
        try await store.signIn("ann", client: "web", token: "r")
        try await store.reject("ann", at: .start + .days(2), finding: .blamed)
        func keep(_ clientIDs: [String]) async throws -> Bool? {
            let app = AppClients(name: "example", clientIDs: clientIDs)
            try await store.ports.adopt([app], under: StoreUnderTest.rules, at: .start + .days(2))
            return try await store.ports.breakers()["example"]?.isOpen
        }
        #expect(try await keep(["app", "web"]) == true)
        #expect(try await keep(["app"]) == false)
    }

    /// The client left the configuration for an hour, and a user withdrew the consent meanwhile.
    @Test func aNotificationForAClientThatIsConfiguredAgainIsJudgedAgain() async throws {
        for client in ["web", "elsewhere"] {
            try await store.receive("for \(client)")
            try await store.settleNotifications(as: .rejected(.wrongAudience, detail: client))
        }
        func start(_ clientIDs: [String]) async throws {
            try await store.ports.adopt([AppClients(name: "example", clientIDs: clientIDs)], under: StoreUnderTest.rules, at: .start)
        }
        try await start(["app"])
        #expect(try await store.count("notification_queue") == 0)
        try await start(["app", "web"])
        #expect(try await store.column("SELECT detail FROM notification_quarantine") == ["elsewhere"])
        #expect(try await store.claimNotifications(upTo: 2).map { String(decoding: $0.payload, as: UTF8.self) } == ["for web"])
    }

    @Test func theScheduleIsCounted() async throws {
        for user in ["ann", "bob", "eve"] { try await store.signIn(user, token: "r-\(user)") }
        try await store.signIn("tim")
        try await store.signIn("ann", client: "elsewhere", token: "r")
        try await store.notify(.accountDeleted, "eve", at: .start + .minutes(1))
        #expect(try await store.ports.scheduledCredentials(of: "example") == 2)
        #expect(try await store.ports.scheduledCredentials(of: "other") == 1)
        #expect(try await store.ports.scheduledCredentials(of: "nobody") == 0)
    }

    @Test func anOperatorMayEnqueueANotification() async throws {
        let body = Array("{\"payload\":\"é\"}".utf8)
        let appended = try await store.ports.append([.notification(body)], at: .start)
        let claimed = try await store.claimNotifications()[0]
        #expect(appended == [.row(RowReference(id: claimed.id, time: .start))] && claimed.payload == body)
        for size in [0, Queue.longestNotification + 1] {
            let body = [UInt8](repeating: 120, count: size)
            #expect(await storeFailure { try await store.ports.append([.notification(body)], at: .start) } == "refused")
        }
    }
}
