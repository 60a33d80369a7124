// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import Testing

/// Runs the examples of `Examples/sql` as they are on a real store's file. `make test` installs Python, but not Node.js.
@Suite(.eachStore, .on(.file)) struct DocumentedExamplesTests: PythonExample {
    private static let javaScriptExample = BackendPages.file("Examples/sql/siwatch-sql.mjs")

    private func answer(_ answer: RefreshAnswer.Verdict, _ user: String, _ client: String, at now: Timestamp) async throws {
        let key = "user_id = ? AND client = (SELECT id FROM client WHERE client_id = ?)"
        try await store.run("UPDATE credential SET due_at = 0, first_check = 0 WHERE \(key)", [.text(user), .text(client)])
        let due = try await store.claimCredentials(upTo: 1, at: now)[0]
        try #require(due.id == CredentialID(clientID: client, userID: user))
        _ = try await store.settle(answer, about: due, at: now)
    }

    // MARK: Following

    /// Users with sessions at two clients. Each session has a name and the time of its sign-in.
    private static let sessions: [String: [String: Int64]] = {
        let (first, second) = (Timestamp.start.milliseconds, (Timestamp.start + .hours(1)).milliseconds)
        var sessions: [String: [String: Int64]] = [:]
        for user in ["half", "whole", "gone", "back", "stays"] { sessions[user] = ["\(user)-app": first, "\(user)-web": second] }
        sessions["back"]?["back-again"] = (Timestamp.start + .days(4)).milliseconds
        return sessions
    }()

    private static let ended = #"["back-app","back-web","gone-app","gone-web","whole-app","whole-web"]"#

    /// One of `half`'s tokens dies, and both of `whole`'s. `gone` and `back` withdraw their consent, and the next sign-in of `back` still
    /// waits.
    private func trouble() async throws {
        for user in Self.sessions.keys.sorted() {
            try await store.signIn(user, client: "app", token: "\(user)1")
            try await store.signIn(user, client: "web", token: "\(user)2", at: .start + .hours(1))
        }
        for (user, client) in [("half", "app"), ("whole", "app"), ("whole", "web")] {
            try await answer(.valid, user, client, at: .start + .days(1))
            try await answer(.rejected, user, client, at: .start + .days(2))
        }
        for user in ["gone", "back"] { try await store.notify(.consentRevoked, user, client: "web", at: .start + .days(3)) }
        try await store.grant("back", client: "web", at: .start + .days(4))
    }

    @Test func theFollowerEndsWhatTheRuleEnds() async throws {
        try await trouble()
        let found = try await python(
            given: Self.sessions,
            running: """
                db = connect("example", ["app", "web"], path)
                changes = changes_after(db, 0)
                followed = {s for change in changes for s in sessions_to_end(db, change, given.get(change[2], {}))}
                ruled = {s for sub in given for s, at in given[sub].items() if must_end_session(db, "example", sub, at)}
                found = [sorted(followed), sorted(ruled), newest_change(db) - changes[-1][0]]
                """
        )
        #expect(found == "[\(Self.ended),\(Self.ended),0]")
        #expect(try await store.column("SELECT state FROM user_state WHERE user_id = 'half'") == ["authorized"])
    }

    @Test func theFollowerReadsUntilFewerCome() async throws {
        let columns = "credential_change (app, client_id, user_id, kind, to_state, reason, source, occurred_at, recorded_at)"
        try await store.insert(1_100, into: columns, "'example', 'app', 'user' || n, 'state', 'authorized', 'granted', 'grant', 0, 0")
        let found = try await python(
            running: """
                changes = list(itertools.islice(follow(connect("example", ["app"], path), 3), 1097))
                found = [len(changes), changes[0][0], changes[-1][0], changes[-1][2]]
                """
        )
        #expect(found == #"[1097,4,1100,"user1100"]"#)
    }

    /// Everything passes its retention while no follower runs, and an operator empties the table, or did so earlier.
    @Test func theFollowerSeesWhatItMissed() async throws {
        let look = """
            db = connect("example", ["app"], path)
            def look(last_seen):
                try:
                    return [change[0] for change in changes_after(db, last_seen)]
                except LookupError:
                    return "begin again"
            found = [look(last_seen) for last_seen in given]
            """
        #expect(try await python(given: [0], running: look) == "[[]]")
        for number in 1...5 { try await store.signIn("user\(number)") }
        #expect(try await python(given: [0, 3, 5], running: look) == "[[1,2,3,4,5],[4,5],[]]")
        try await store.ports.maintain(at: .start + .days(400))
        let shown = try await python(given: [0, 2, 3, 4, 5, 6], running: look)
        #expect(shown == #"["begin again","begin again","begin again",[5],[],"begin again"]"#)
        try await store.run("DELETE FROM credential_change")
        #expect(try await python(given: [0, 5], running: look) == #"[[],"begin again"]"#)
        try await store.signIn("user6")
        #expect(try await python(given: [0, 5, 6], running: look) == #"["begin again",[6],[]]"#)
    }

    /// SQL that commits in siwatch's place: while the request of a user who has signed in is on its way, the user withdraws consent and the
    /// follower passes the row.
    private static let withdrawal = [
        "UPDATE credential SET state = 'revoked', reason = 'consent_revoked', changed_at = \((Timestamp.start + .hours(1)).milliseconds)",
        """
        INSERT INTO credential_change (app, client_id, user_id, kind, from_state, to_state, reason, source, occurred_at, recorded_at) \
        VALUES ('example', 'app', 'user', 'state', 'authorized', 'revoked', 'consent_revoked', 'notification', 1, 1)
        """,
    ]

    /// Before the commit the rule ends nothing, and the follower finds no session. It does not end a newer sign-in.
    private static let slowRequestEnds = #"[[],false,[],true]"#

    @Test func aSessionThatIsCommittedAfterItsEndIsEnded() async throws {
        try await store.signIn(at: .start)
        let found = try await python(
            given: Self.withdrawal,
            running: """
                db = connect("example", ["app"], path)
                sessions, last_seen = {}, newest_change(db)
                def pass_by():
                    global last_seen
                    ended = []
                    for change in changes_after(db, last_seen):
                        ended += sessions_to_end(db, change, sessions)
                        last_seen = change[0]
                    return ended
                passed = []
                def commit():
                    for sql in given:
                        db.execute(sql)
                    passed.append(pass_by())
                    sessions["slow"] = \(Timestamp.start.milliseconds)
                begun = begin_session(db, "example", "user", \(Timestamp.start.milliseconds), commit)
                later = \((Timestamp.start + .hours(2)).milliseconds)
                found = [passed[0], begun, pass_by(), begin_session(db, "example", "user", later, lambda: None)]
                """
        )
        #expect(found == Self.slowRequestEnds)
    }

    // MARK: JavaScript

    private static func node(_ arguments: String...) async throws -> (status: Int32, output: [String]) {
        let process = try ChildProcess(URL(filePath: "/usr/bin/env"), ["node"] + arguments)
        return (await process.exit(), process.output)
    }

    private static func hasNode() async throws -> Bool { try await node("--version").status == 0 }
    private static func hasSQLite() async throws -> Bool { try await node("--eval", "require('node:sqlite')").status == 0 }

    @Test(.enabled("there is no node on the PATH") { try await hasNode() }) func theJavaScriptIsJavaScript() async throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        let module = file.folder.appending(path: "example.mjs")
        try Self.javaScriptExample.write(to: module, atomically: true, encoding: .utf8)
        let (status, output) = try await Self.node("--check", module.path)
        #expect(status == 0, "\(output)")
    }

    @Test(.enabled("this Node.js has no node:sqlite") { try await hasSQLite() }) func theJavaScriptEndsWhatTheRuleEnds() async throws {
        try await trouble()
        let more = """

            const given = \(String(decoding: try JSONEncoder().encode(Self.sessions), as: UTF8.self));
            const sessionsOf = (sub) => Object.entries(given[sub] ?? {}).map(([name, signedInAt]) => ({ name, signedInAt }));
            const followed = new Set();
            for (const change of changesAfter(0)) {
              for (const session of sessionsToEnd(change, sessionsOf(change.user_id))) followed.add(session.name);
            }
            const all = Object.keys(given).flatMap((sub) => sessionsOf(sub).map((session) => ({ ...session, sub })));
            const ruled = all.filter((session) => mustEndSession("example", session.sub, session.signedInAt));
            let missed = false;
            try {
              changesAfter(newestChange() + 1);
            } catch (error) {
              missed = error instanceof RangeError;
            }
            const first = await follow(0).next();
            const signedInAt = keepGrant("app", { sub: "new", iat: 1750000000, is_private_email: "true" });
            const found = [[...followed].sort(), ruled.map((session) => session.name).sort(), missed, first.value.id, signedInAt];
            console.log(JSON.stringify(found));
            """
        #expect(try await javaScript(running: more) == "[\(Self.ended),\(Self.ended),true,1,1750000000999]")
        #expect(try await store.column("SELECT email_is_private FROM grant_queue WHERE user_id = 'new'") == [1])
    }

    /// Runs the JavaScript example, then `more`.
    ///
    /// - Returns: the last line that it printed.
    private func javaScript(running more: String) async throws -> String? {
        let module = store.file.folder.appending(path: "example.mjs")
        let example = Self.javaScriptExample
            .replacingOccurrences(of: "/var/lib/siwatch/siwatch.sqlite", with: store.file.path)
            .replacingOccurrences(of: "com.example.", with: "")
        try (example + more).write(to: module, atomically: true, encoding: .utf8)
        let (status, output) = try await Self.node(module.path)
        #expect(status == 0, "\(output)")
        return output.last
    }

    @Test(.enabled("this Node.js has no node:sqlite") { try await hasSQLite() })
    func inJavaScriptASessionThatIsCommittedAfterItsEndIsEnded() async throws {
        let more = """

            let lastSeen = newestChange();
            const sessions = [];
            function passBy() {
              const ended = [];
              for (const change of changesAfter(lastSeen)) {
                ended.push(...sessionsToEnd(change, sessions));
                lastSeen = change.id;
              }
              return ended;
            }
            const passed = [];
            const begun = await beginSession("example", "user", \(Timestamp.start.milliseconds), async () => {
              for (const sql of \(String(decoding: try JSONEncoder().encode(Self.withdrawal), as: UTF8.self))) db.exec(sql);
              passed.push(passBy());
              sessions.push({ signedInAt: \(Timestamp.start.milliseconds) });
            });
            const again = await beginSession("example", "user", \((Timestamp.start + .hours(2)).milliseconds), () => {});
            console.log(JSON.stringify([passed[0], begun, passBy(), again]));
            """
        try await store.signIn(at: .start)
        #expect(try await javaScript(running: more) == Self.slowRequestEnds)
    }
}
