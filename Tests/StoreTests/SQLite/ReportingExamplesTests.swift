// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

/// What a backend that copies the Python example tells siwatch, after it has connected.
@Suite(.eachStore, .on(.file)) struct ReportingExamplesTests: PythonExample {
    @Test func aMistakeIsSaidAtTheStart() async throws {
        let connecting = """
            found = []
            for attempt in given:
                try:
                    connect(attempt["app"], attempt["clientIDs"], attempt["path"])
                    found.append("connected")
                except (sqlite3.Error, ValueError) as error:
                    found.append(f"{type(error).__name__}: {error}")
            """
        let unknown = try TemporaryFile.migrated()
        defer { unknown.remove() }
        let empty = try TemporaryFile()
        defer { empty.remove() }
        try Data().write(to: empty.url)
        struct Attempt: Encodable {
            var path: String
            var app = "example"
            var clientIDs = ["app", "web"]
        }
        let attempts = [
            Attempt(path: store.file.path), Attempt(path: store.file.path, app: "exmaple"),
            Attempt(path: store.file.path, clientIDs: ["app", "wbe"]), Attempt(path: store.file.path, clientIDs: ["elsewhere"]),
            Attempt(path: unknown.path), Attempt(path: "/nowhere/siwatch.sqlite"), Attempt(path: empty.path),
        ]
        let found = try JSONDecoder().decode([String].self, from: Data(try await python(given: attempts, running: connecting).utf8))
        #expect(
            found == [
                "connected",
                "ValueError: of the app exmaple, siwatch knows the clients [] and not all of ['app', 'web']",
                "ValueError: of the app example, siwatch knows the clients ['app', 'web'] and not all of ['app', 'wbe']",
                "ValueError: of the app example, siwatch knows the clients ['app', 'web'] and not all of ['elsewhere']",
                "ValueError: of the app example, siwatch knows the clients [] and not all of ['app', 'web']",
                "OperationalError: unable to open database file",
                "OperationalError: no such table: app_client",
            ]
        )
        for message in ["unable to open database file", "no such table"] { #expect(BackendPages.sqlite.contains("*\(message)*")) }
    }

    @Test func whatAppleWritesIsTakenAsItIs() async throws {
        let found = try await python(
            running: """
                db = connect("example", ["app"], path)
                for number, private in enumerate(["true", True, "false", False, None]):
                    claims = {"sub": f"user{number}", "iat": 1750000000, "email": "a@example.com"}
                    if private is not None:
                        claims["is_private_email"] = private
                    keep_grant(db, "app", claims, None if private else "r")
                bodies = [b"", b"{}", b"\\xff", b"x" * 65536, b"x" * 65537]
                found = [keep_notification(db, body) for body in bodies]
                """
        )
        #expect(found == "[400,200,200,200,400]")
        #expect(try await store.column("SELECT email_is_private FROM grant_queue ORDER BY id") == [1, 1, 0, 0, nil])
        #expect(try await store.column("SELECT DISTINCT granted_at FROM grant_queue") == [1_750_000_000_999])
    }

    /// A native sign-in, one on the web, and a deleted account.
    @Test func codesAndRequestsAreTakenAsTheyAreTold() async throws {
        let found = try await python(
            running: """
                db = connect("example", ["app", "web"], path)
                claims = {"sub": "user", "iat": 1750000000}
                found = [
                    keep_code(db, "app", claims, "c1", nonce="n"),
                    keep_code(db, "web", claims, "c2", redirect_uri="https://example.com/callback"),
                    ask_revocation(db, "app", "user"),
                ]
                """
        )
        #expect(found == "[1750000000999,1750000000999,null]")
        let codes = try await store.claimCodes()
        #expect(codes.map { $0.content?.clientID } == ["app", "web"] && codes.allSatisfy { $0.content?.userID == "user" })
        #expect(codes.map { $0.content?.nonce } == ["n", nil])
        #expect(codes.map { $0.content?.redirectURI } == [nil, "https://example.com/callback"])
        let requests = try await store.claimRevocationRequests(at: .start)
        #expect(requests.map(\.credential) == [CredentialID(clientID: "app", userID: "user")])
    }

    /// One second has a withdrawal of consent and, after it, a sign-in. The session is good.
    @Test func aSignInOutlivesARevocationOfItsSecond() async throws {
        try await store.signIn(at: .start - .days(1))
        try await store.notify(.consentRevoked, at: .start + .milliseconds(300))
        let keep = """
            db = connect("example", ["app"], path)
            found = keep_grant(db, "app", {"sub": "user", "iat": given}, None)
            """
        let signedInAt = try await python(given: Timestamp.start.milliseconds / 1000, running: keep)
        try await store.settleGrants(at: .start + .seconds(2))
        let rule = #"found = must_end_session(connect("example", ["app"], path), "example", "user", given)"#
        #expect(try await python(given: Int64(signedInAt), running: rule) == "false")
        #expect(try await store.column("SELECT state FROM user_state") == ["authorized"])
    }
}
