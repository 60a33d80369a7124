// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import Webhooks

struct WebhookMessageTests {
    private static let change = """
        {"id": 7, "app": "example", "clientID": "app", "userID": "ann", "kind": "state", "fromState": "authorized", "toState": "revoked",
         "reason": "consent_revoked", "source": "notification", "occurredAt": 1700000000123, "recordedAt": 1700000001123}
        """

    private func change(_ edit: (inout PublishedChange) -> Void = { _ in }) throws -> PublishedChange {
        var change = try JSONDecoder().decode(PublishedChange.self, from: Data(Self.change.utf8))
        edit(&change)
        return change
    }

    private func user(_ state: String, _ reason: String) throws -> UserState {
        let text = """
            {"app": "example", "userID": "ann", "state": "\(state)", "reason": "\(reason)", "changedAt": 1700000000123, "email": "a@b.c"}
            """
        return try JSONDecoder().decode(UserState.self, from: Data(text.utf8))
    }

    private func text(_ message: WebhookMessage) -> String { String(decoding: message.body, as: UTF8.self) }

    @Test func aMessageHoldsTheRuleForSessions() throws {
        let message = WebhookMessage(try change(), of: try user("revoked", "consent_revoked"), withAddress: false)
        #expect(
            text(message) == """
                {"data":{"app":"example","change_id":"7-loyw3vxf","client_id":"app","ends_sessions_before":1700000000123,"occurred_at":1700000000123,\
                "reason":"consent_revoked","user_id":"ann"},"timestamp":"2023-11-14T22:13:21.123Z","type":"credential.revoked"}
                """
        )
        // Another client keeps the user signed in, or nothing is known any more.
        for user in [try user("authorized", "granted"), nil] {
            #expect(text(WebhookMessage(try change(), of: user, withAddress: false)).contains("\"ends_sessions_before\":null"))
        }
        let gone = WebhookMessage(try change { $0.toState = "notFound" }, of: try user("notFound", "account_deleted"), withAddress: false)
        #expect(text(gone).contains("\"ends_sessions_before\":1700000000123") && text(gone).contains("credential.account_deleted"))
        let never = WebhookMessage(try change(), of: try user("notFound", "never_granted"), withAddress: false)
        #expect(text(never).contains("\"ends_sessions_before\":null"))
    }

    @Test func anAddressIsToldOnlyIfAskedFor() throws {
        let news = try change { ($0.kind, $0.toState, $0.reason, $0.email) = ("email", nil, nil, "ann@example.com") }
        #expect(!text(WebhookMessage(news, of: nil, withAddress: false)).contains("ann@"))
        let told = text(WebhookMessage(news, of: nil, withAddress: true))
        #expect(told.contains("\"email\":\"ann@example.com\"") && told.contains("credential.email"))
    }

    /// The same change keeps its id. After a restore, another change may have its number.
    @Test func anIDIsThatOfOneChange() throws {
        func id(_ edit: (inout PublishedChange) -> Void = { _ in }) throws -> String {
            WebhookMessage(try change(edit), of: nil, withAddress: false).id
        }
        #expect(try id() == id())
        let others = try [id { $0.recordedAt = .earliest }, id { $0.userID = "bob" }, id { $0.id = 8 }, id { $0.app = "other" }]
        #expect(try Set(others + [id()]).count == 5)
        #expect(try id().hasPrefix("msg_"))
    }

    /// The example of Standard Webhooks.
    @Test func aSignatureIsThatOfTheStandard() throws {
        let secret = try #require(WebhookSecret(Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
        let body = Array(#"{"test": 2432232314}"#.utf8)
        let signature = secret.signature(id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: body)
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_short", "whsec_" + String(repeating: "A", count: 28)] {
            #expect(WebhookSecret(Secret(text)) == nil)
        }
    }
}
