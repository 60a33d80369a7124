// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// siwatch forgets users who have ended, their addresses first.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct EndedUserTests: ConformanceSuite {
    /// A user with an address who has ended, one who is signed in at another client, and one who is signed in.
    private func ended(_ configure: (inout Retention) -> Void) async throws {
        try renew(configure)
        for user in ["ended", "elsewhere", "in"] { try await store.signIn(user, email: EmailAddress("\(user)@example.com")) }
        try await store.signIn("elsewhere", client: "web", at: .start + .days(3))
        for user in ["ended", "elsewhere"] { try await store.notify(.consentRevoked, user, at: .start + .days(2)) }
    }

    @Test func aUserWhoHasEndedIsForgotten() async throws {
        try await ended { $0.endedUser = .days(10) }
        try await store.ports.maintain(at: .start + .days(12))
        #expect(try await store.count("user_state") == 3)
        try await store.ports.maintain(at: .start + .days(12) + .milliseconds(1))
        #expect(try await store.column("SELECT user_id FROM user_state ORDER BY user_id") == ["elsewhere", "in"])
        #expect(try await store.count("user_event WHERE user_id = 'ended'") == 0)
        let counts = try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0 ORDER BY state")
        #expect(counts == [["authorized", 2], ["revoked", 1]])
        #expect(try await store.count("notification_log WHERE user_id = 'ended'") == 1, "it has its own retention")
        // An old sign-in that a backend tells again brings nobody back, and a new one does.
        #expect(try await store.signIn("ended", now: .start + .days(13)) == .grant(.stale, nil))
        #expect(try await store.count("user_state WHERE user_id = 'ended'") == 0)
        #expect(try await store.signIn("ended", at: .start + .days(13)) == .grant(.applied, nil))
        try await store.ports.maintain(at: .start + .days(40))
        #expect(try await store.column("SELECT user_id FROM user_state ORDER BY user_id") == ["elsewhere", "ended", "in"])
    }

    /// Their rows would otherwise be settled about nobody.
    @Test func whoHasWaitingRowsStays() async throws {
        try await ended { ($0.endedUser, $0.address) = (.days(10), .days(10)) }
        try await store.grant("ended", at: .start + .days(20))
        try await store.ports.maintain(at: .start + .days(20))
        #expect(try await store.column("SELECT email FROM user_state WHERE user_id = 'ended'") == ["ended@example.com"])
        try await store.settleGrants(at: .start + .days(20))
        try await store.ports.maintain(at: .start + .days(40))
        #expect(try await store.count("user_state") == 3)
    }

    @Test func theAddressOfAUserWhoHasEndedGoesBefore() async throws {
        try await ended { $0.address = .days(10) }
        try await store.ports.maintain(at: .start + .days(12) + .milliseconds(1))
        let states = try await store.rows("SELECT user_id, email FROM user_state ORDER BY user_id")
        #expect(states == [["elsewhere", "elsewhere@example.com"], ["ended", nil], ["in", "in@example.com"]])
        #expect(try await store.count("user_event WHERE email IS NOT NULL") == 2)
        #expect(try await store.count("credential_change WHERE kind = 'email' AND email IS NOT NULL") == 1, "the one of day 3")
    }

    /// More users than a portion, some with several credentials.
    @Test func everyEndedUserIsFound() async throws {
        try renew { $0.endedUser = .days(10) }
        try await store.run(
            """
            WITH RECURSIVE person (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM person WHERE n < 2499)
            INSERT INTO grant_queue (client_id, user_id, granted_at)
            SELECT client_id, 'user' || n, ? FROM person JOIN (SELECT 'app' AS client_id UNION ALL SELECT 'web') c
                ON client_id = 'app' OR n % 3 = 0
            """,
            [.at(.start)]
        )
        while try await !store.settleGrants(at: .start).isEmpty {}
        try await store.run(
            """
            INSERT INTO user_event (user_id, app, consent_revoked_at)
            SELECT DISTINCT user_id, app, granted_at + 1 FROM credential WHERE user_id <> 'user7'
                ON CONFLICT (user_id, app) DO UPDATE SET consent_revoked_at = excluded.consent_revoked_at
            """
        )
        try await store.run("UPDATE credential SET state = 'revoked', reason = 'consent_revoked' WHERE user_id <> 'user7'")
        try await store.ports.maintain(at: .start + .days(11))
        #expect(try await store.column("SELECT user_id FROM credential") == ["user7"])
        #expect(try await store.count("user_event WHERE user_id LIKE 'forgotten:%'") == 2_499)
    }
}
