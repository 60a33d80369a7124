// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import GRDB

/// Checks the tables, the feed and Apple's records for what must hold at any moment, after any fault.
struct FleetInspector {
    /// The shortest time between two questions about a token by different processes, in milliseconds. The second process must wait for the
    /// end of the first one's claim, which lasts a minute. On a busy machine a claimed check may wait for up to 20 seconds of it
    /// (`RefreshPolicy.longestReserve`). Two roads to one clock differ a little.
    private static let shortestGap: Int64 = 39_000
    private static let haziness = Duration.seconds(1)

    private let limits: FleetLimits
    private let site: Site
    private let looks: Backend
    private let feed: FeedFollower
    private var shown: [Name: FeedFollower.Change.State] = [:]

    private struct Name: Hashable {
        var userID: String
        var clientID: String
    }

    init(_ site: Site, _ feed: FeedFollower, _ limits: FleetLimits) throws {
        (self.limits, self.site, self.feed) = (limits, site, feed)
        looks = try Backend(site.schema!)
    }

    /// - Parameter told: the numbers while no backend inserts more.
    /// - Returns: a sentence for each error.
    mutating func look(told: FleetPeople.Told, _ fleet: ReplicaFleet) async throws -> [String] {
        var wrong = try await nothingIsLost(told) + countsAreRight() + nothingIsStuck() + feedIsRight()
        wrong += try await fleet.lookAtProcesses()
        let history = await fleet.history
        wrong += try await appleIsAskedOnce(told, history)
        wrong += history.ends.filter { !$0.isInOrder }.map { "a replica ended with \($0)" }
        return wrong
    }

    /// I1: every inserted row waits, or is in a log or the quarantine.
    private func nothingIsLost(_ told: FleetPeople.Told) async throws -> [String] {
        let row = try await looks.rows(
            """
            SELECT (SELECT COUNT(*) FROM grant_queue) + (SELECT COUNT(*) FROM grant_log) AS signed_in,
                   (SELECT COUNT(*) FROM notification_queue) + (SELECT COUNT(*) FROM notification_log)
                     + (SELECT COUNT(*) FROM notification_quarantine) AS notified,
                   (SELECT COUNT(*) FROM revocation_queue)
                     + (SELECT COUNT(DISTINCT request) FROM revocation_log
                         WHERE request NOT IN (SELECT id FROM revocation_queue)) AS requested
            """
        )[0]
        let figures: [(name: String, told: Int, found: Int)] = [
            ("sign-ins", told.tokens + told.codes, row["signed_in"]), ("notifications", told.notifications, row["notified"]),
            ("requests to revoke", told.requests, row["requested"]),
        ]
        return figures.filter { $0.told != $0.found }.map { "I1: \($0.told) \($0.name) were told, \($0.found) are there" }
    }

    /// I2: the counters match the rows, so siwatch settled nothing twice.
    private func countsAreRight() async throws -> [String] {
        try await looks.rows(
            """
            SELECT 'credentials of ' || state AS name
              FROM (SELECT app, state, count FROM credential_count WHERE count <> 0) counted
              FULL JOIN (SELECT app, state, COUNT(*) AS count FROM credential GROUP BY app, state) there USING (app, state)
             WHERE counted.count IS DISTINCT FROM there.count
             UNION ALL
            SELECT 'removed grants' WHERE COALESCE((SELECT value FROM counter WHERE name = 'grant_queue_removed'), 0)
                                          <> (SELECT COUNT(*) FROM grant_log)
             UNION ALL
            SELECT 'removed notifications' WHERE COALESCE((SELECT value FROM counter WHERE name = 'notification_queue_removed'), 0)
                           <> (SELECT COUNT(*) FROM notification_log) + (SELECT COUNT(*) FROM notification_quarantine)
             UNION ALL
            SELECT 'rejections that wait' FROM app WHERE pending <> (SELECT COUNT(pending_since) FROM credential WHERE app = app.id)
             UNION ALL
            SELECT 'a notification told twice' FROM notification_log WHERE outcome <> 'duplicate'
             GROUP BY app, user_id, type, event_time HAVING COUNT(*) > 1
            """
        ).map { "I2: \($0[0] as String) are not what their rows say" }
    }

    /// I6: claimed rows become due again.
    private func nothingIsStuck() async throws -> [String] {
        let now = ReplicaFleet.now
        return try await looks.rows(
            """
            SELECT 'notification ' || id FROM notification_queue WHERE due_at > \(now) + 900000
             UNION ALL SELECT 'grant ' || id FROM grant_queue WHERE due_at > \(now) + 300000
             UNION ALL SELECT 'request ' || id FROM revocation_queue WHERE opened_at IS NULL AND due_at > \(now) + 900000
             UNION ALL SELECT 'revocation of ' || user_id FROM revocation WHERE due_at > \(now) + 7200000
             UNION ALL SELECT 'credential of ' || user_id FROM credential WHERE due_at > \(now) + 7200000
            """
        ).map { "I6: the \($0[0] as String) is due too far ahead" }
    }

    /// I2, I3 and I5: the feed misses no change, each change follows from the one before, and no user loses a sign-in without cause.
    private mutating func feedIsRight() async throws -> [String] {
        var wrong: [String] = []
        let missed = try await feed.missed(by: looks)
        if missed != 0 { wrong.append("the feed was read past \(missed) changes") }
        let ledger = site.ledger
        for change in try feed.takeNews() {
            guard let state = change.state else { continue }
            let name = Name(userID: change.userID, clientID: change.clientID)
            let before = shown[name]
            if state.from != before?.to || before.map(state.isSame(as:)) ?? false {
                wrong.append("I2: \(name) goes from \(state.from ?? "nothing") to \(state.to) after \(before?.to ?? "nothing")")
            }
            shown[name] = state
            let isJust = state.reason == "revoked_by_app" || ledger.isEnding(state.occurredAt, of: change.userID)
            if state.to != "authorized", !isJust { wrong.append("I5: \(name) is \(state.to) for \(state.reason), and has not left") }
        }
        return wrong
    }

    /// I4: one replica at a time asks Apple, within the limits of one, and about no token and no code twice.
    private func appleIsAskedOnce(_ told: FleetPeople.Told, _ history: FleetHistory) async throws -> [String] {
        let counters = try await site.apple.send(ReadCounters())
        let (traffic, codes) = (counters.traffic, counters.codes)
        var wrong: [String] = []
        if let gap = counters.shortestRefreshGap, gap < Self.shortestGap { wrong.append("I4: a token was asked about twice in \(gap) ms") }
        wrong += history.unexplained(traffic.strays).map { "I4: \($0) did not own the app" }
        let owners = try await looks.int("SELECT SUM(epoch) FROM lane WHERE app <> ''")
        if traffic.handovers > owners { wrong.append("I4: \(owners) owners, and \(traffic.handovers) handovers") }
        if traffic.mostCodesInASecond > limits.mostCodesInASecond || traffic.mostOthersInASecond > limits.mostOthersInASecond {
            wrong.append("the limit was \(limits.requestsPerSecond) a second: \(traffic)")
        }
        if codes.redeemed > told.codes || codes.refused.keys.contains(where: { $0 != .used }) { wrong.append("codes: \(codes)") }
        return wrong
    }

    // MARK: The end

    /// Checks that hold once nothing waits any more and all replicas are stopped, if so many of these have lost their work in hand, and
    /// the answers of so many codes are lost.
    func lookAtTheEnd(losses: Int, lost: Int) async throws -> [String] {
        let audit = try await site.audit()
        // The order of several events about one user decides which of them is stale.
        let ordered = ["sign-ins ", "notifications applied", "notifications stale"]
        var wrong = audit.wrong.filter { figure in !ordered.contains(where: figure.name.hasPrefix) }.map(\.description)
        wrong += audit.disagreements
        let refused = try await looks.rows(
            "SELECT reason || ' ' || COALESCE(detail, '') FROM grant_log WHERE outcome = 'rejected' AND reason <> 'answer_lost'"
        )
        wrong += refused.map { "a sign-in was refused: \($0[0] as String)" }
        if lost > losses * FleetLimits.mostCodesLost { wrong.append("\(lost) codes were lost by \(losses) who had asked") }
        let repetitions = audit.repetitions(within: limits.interval - Self.haziness)
        if repetitions > losses * limits.mostChecksLost {
            wrong.append("I4: \(repetitions) tokens were asked about again within an interval, and \(losses) have lost answers")
        }
        // siwatch asks again for a lost answer when its claim ends.
        let checks = audit.latestChecks
        let claimed = try await looks.int("SELECT COUNT(*) FROM credential WHERE claimed_by IS NOT NULL")
        if checks.expected - checks.found > claimed { wrong.append("\(checks), and \(claimed) are still claimed") }
        wrong += try await noCodeIsSentTwice()
        return wrong
    }

    /// siwatch had sent the code of each sign-in once.
    private func noCodeIsSentTwice() async throws -> [String] {
        let lost = Set(try await looks.rows("SELECT user_id FROM grant_log WHERE outcome = 'rejected'").map { $0[0] as String })
        return try await site.apple.send(ListUsers()).users.filter { !lost.contains($0.userID) }.flatMap { user in
            user.credentials.filter { $0.exchanges > 1 }.map { "I4: the code of \(user.userID) was sent \($0.exchanges) times" }
        }
    }
}
