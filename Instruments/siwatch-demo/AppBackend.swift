// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import NIOConcurrencyHelpers
import SiwatchClient

/// The app's backend: it signs people in through siwatch's HTTP door and keeps their sessions, which siwatch's webhooks end.
final class AppBackend: Sendable {
    private struct Sessions {
        /// When each session of a user began: the `signed_in_at` that siwatch gave.
        var beginnings: [String: [Int64]] = [:]
        /// A webhook may come before the session that it ends.
        var endsBefore: [String: Int64] = [:]
        var badWebhooks = 0

        mutating func begin(of userID: String, at signedInAt: Int64) {
            if signedInAt >= endsBefore[userID] ?? .min { beginnings[userID, default: []].append(signedInAt) }
        }

        mutating func end(of userID: String, before moment: Int64) {
            endsBefore[userID] = max(moment, endsBefore[userID] ?? .min)
            beginnings[userID]?.removeAll { $0 < moment }
        }
    }

    private struct Webhook: Decodable {
        struct Change: Decodable {
            let userID: String
            let endsSessionsBefore: Int64?
        }

        let data: Change
    }

    private let sessions = NIOLockedValueBox(Sessions())

    var usersWithSession: Int { sessions.withLockedValue { sessions in sessions.beginnings.count { !$0.value.isEmpty } } }
    var badWebhooks: Int { sessions.withLockedValue(\.badWebhooks) }

    /// Begins a session for each sign-in that siwatch takes. It rejects a code that it has had before.
    func signIn(_ people: [SignIn], through siwatch: SiwatchClient) async throws {
        try await withThrowingTaskGroup { group in
            for person in people {
                group.addTask { [self] in
                    do {
                        let signIn = try await siwatch.signIn(clientID: person.clientID, code: person.code)
                        guard let user = signIn.user, let signedInAt = signIn.signedInAt else { return }
                        sessions.withLockedValue { $0.begin(of: user.userID, at: signedInAt) }
                    } catch is SignInRejected {}
                }
            }
            try await group.waitForAll()
        }
    }

    /// Deletes the accounts of people, and lets siwatch revoke them at Apple.
    func delete(_ people: [SignIn], through siwatch: SiwatchClient) async throws {
        for person in people {
            sessions.withLockedValue { $0.beginnings[person.userID] = nil }
            _ = try await siwatch.delete(clientID: person.clientID, userID: person.userID)
        }
    }

    /// Ends the sessions of which a webhook tells.
    ///
    /// - Returns: the status of the answer.
    func take(_ hook: HookReceiver.Hook) -> Int {
        let headers = ["webhook-id": hook.id, "webhook-timestamp": hook.timestamp, "webhook-signature": hook.signatures]
        return sessions.withLockedValue { sessions in
            do {
                let webhook = try SiwatchClient.verifyWebhook(
                    secrets: [Hook.secret],
                    header: { headers[$0] },
                    body: hook.body.utf8,
                    as: Webhook.self
                )
                if let moment = webhook.data.endsSessionsBefore { sessions.end(of: webhook.data.userID, before: moment) }
                return 204
            } catch {
                sessions.badWebhooks += 1
                return 400
            }
        }
    }
}
