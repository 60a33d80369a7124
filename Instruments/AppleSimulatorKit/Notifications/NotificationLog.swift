// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The latest notifications, kept to send any of them again unchanged.
struct NotificationLog: Sendable {
    static let kept = 10_000

    /// A ring: once it is full, `next` is the oldest and the next to go.
    private var ring: [SignedNotification] = []
    private var next = 0

    mutating func append(_ notification: SignedNotification) {
        if ring.count < Self.kept {
            ring.append(notification)
        } else {
            ring[next] = notification
            next = (next + 1) % Self.kept
        }
    }

    /// Oldest first.
    var all: [SignedNotification] { Array(ring[next...] + ring[..<next]) }

    subscript(id: String) -> SignedNotification? {
        ring.last { $0.id == id }
    }
}

/// A notification as Apple sends it, with the details that a test needs.
package struct SignedNotification: Sendable, Codable, Equatable {
    /// The `jti`.
    package let id: String
    package let type: String
    package let userID: String
    /// The client that `aud` names.
    package let audience: String
    package let eventTime: Moment
    /// The body of the POST, byte by byte: `{"payload":"<JWS>"}`.
    package let body: String

    enum CodingKeys: String, CodingKey {
        case id = "jti"
        case type
        case userID = "user_id"
        case audience = "client_id"
        case eventTime = "event_time"
        case body
    }
}
