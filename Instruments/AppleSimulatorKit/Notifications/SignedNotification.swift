// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
