// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto
import Foundation

package struct WebhookMessage: Sendable {
    /// The same for each try of a change, and never that of another change.
    package let id: String
    package let body: [UInt8]

    private struct Document: Encodable {
        var type, timestamp: String
        var data: Content
    }

    private struct Content: Encodable {
        var changeID: RowReference
        var app, clientID, userID: String
        var occurredAt: Timestamp
        /// There even if it is null, because it is the rule for sessions.
        var endsSessionsBefore: OrNull<Timestamp>
        var reason, email, emailForwarding: String?
    }

    private struct OrNull<Value: Encodable>: Encodable {
        var value: Value?

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(value)
        }
    }

    /// - Parameter user: as known now; nil if siwatch knows nothing any more.
    package init(_ change: PublishedChange, of user: UserState?, withAddress: Bool) {
        let isOver = user.map { $0.endsSession(of: .earliest) } ?? false
        let document = Document(
            type: WebhookType(change).rawValue,
            timestamp: change.recordedAt.iso8601,
            data: Content(
                changeID: change.row,
                app: change.app,
                clientID: change.clientID,
                userID: change.userID,
                occurredAt: change.occurredAt,
                endsSessionsBefore: OrNull(value: isOver ? user?.changedAt : nil),
                reason: change.reason,
                email: withAddress ? change.email : nil,
                emailForwarding: change.emailForwarding
            )
        )
        id = Self.id(of: change)
        body = Self.encoded(document)
    }

    /// An event for trying a receiver out. It tells of nobody.
    package init(test time: Timestamp, nonce: UInt64) {
        struct Test: Encodable {
            var type = "siwatch.test"
            var timestamp: String
            var data: [String: String] = [:]
        }
        id = "msg_test_\(String(nonce, radix: 36))"
        body = Self.encoded(Test(timestamp: time.iso8601))
    }

    private static func encoded(_ document: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        // The types here always encode.
        return (try? encoder.encode(document)).map(Array.init) ?? []
    }

    /// By all that a change is. After a restore another change may have the same number; it has another moment.
    private static func id(of change: PublishedChange) -> String {
        let parts = [
            "\(change.id)", change.app, change.clientID, change.userID, change.kind, change.toState ?? "",
            "\(change.occurredAt.milliseconds)", "\(change.recordedAt.milliseconds)",
        ]
        let digest = SHA256.hash(data: Data(parts.map { "\($0.utf8.count):\($0)" }.joined().utf8))
        return "msg_" + digest.prefix(16).map(\.hexadecimal).joined()
    }
}

/// `type` of a message, and what a delivery may ask for.
package enum WebhookType: String, Sendable, CaseIterable {
    case revoked = "credential.revoked"
    case accountDeleted = "credential.account_deleted"
    case authorized = "credential.authorized"
    case email = "credential.email"

    init(_ change: PublishedChange) {
        self =
            switch (change.kind, change.toState) {
            case ("email", _): .email
            case (_, CredentialState.authorized.rawValue): .authorized
            case (_, CredentialState.notFound.rawValue): .accountDeleted
            default: .revoked
            }
    }
}

extension Timestamp {
    /// To the millisecond, in UTC.
    fileprivate var iso8601: String {
        let (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        let fraction = String(1000 + rest).dropFirst()
        return Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601).replacing("Z", with: ".\(fraction)Z")
    }
}
