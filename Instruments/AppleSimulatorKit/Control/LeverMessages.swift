// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// `POST /simulator/keys/rotation`
struct RotationMessage: ControlMessage {
    static let members = CodingKeys.names

    let keepsFormer: Bool

    enum CodingKeys: String, CodingKey, CaseIterable {
        case keepsFormer = "keep_former"
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        keepsFormer = try container.decodeIfPresent(Bool.self, forKey: .keepsFormer) ?? true
    }
}

/// The answer to a rotation.
struct KeyIDsMessage: Encodable {
    let keyIDs: [String]

    enum CodingKeys: String, CodingKey {
        case keyIDs = "key_ids"
    }
}

/// `PUT /simulator/clock`
struct ClockMessage: ControlMessage {
    static let members = CodingKeys.names

    /// How far Apple's clock is ahead of the machine's, in milliseconds.
    let offset: Int64

    enum CodingKeys: String, CodingKey, CaseIterable {
        case offset = "offset_ms"
    }

    init(from decoder: any Decoder) throws {
        let century: Int64 = 3_155_760_000_000
        let container = try decoder.container(keyedBy: CodingKeys.self)
        offset = try container.decodeIfPresent(in: -century...century, forKey: .offset) ?? 0
    }
}

/// Apple's time, and how far it is ahead of the machine's.
struct TimeMessage: Encodable {
    let now: Moment
    let offset: Int64

    enum CodingKeys: String, CodingKey {
        case now
        case offset = "offset_ms"
    }
}

/// `POST /simulator/client-keys`
struct ClientKeyMessage: ControlMessage {
    static let members = CodingKeys.names

    let clientID: String
    let keyID: String
    /// The public key as PEM.
    let publicKey: String

    enum CodingKeys: String, CodingKey, CaseIterable {
        case clientID = "client_id"
        case keyID = "key_id"
        case publicKey = "public_key"
    }
}

/// The answer of `POST /simulator/preparations`.
struct PreparationMessage: Encodable {
    let prepared: Int
}

/// The answer of `GET /simulator/counters`.
package struct CountersMessage: Codable {
    package let counters: Counters
    /// In milliseconds; nil while Apple has answered about no token twice.
    package let shortestRefreshGap: Int64?

    enum CodingKeys: String, CodingKey {
        case shortestRefreshGap = "shortest_refresh_gap_ms"
    }

    init(_ counters: Counters, shortestRefreshGap: Duration?) {
        self.counters = counters
        self.shortestRefreshGap = shortestRefreshGap?.wholeMilliseconds
    }

    package init(from decoder: any Decoder) throws {
        counters = try Counters(from: decoder)
        shortestRefreshGap = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(Int64.self, forKey: .shortestRefreshGap)
    }

    package func encode(to encoder: any Encoder) throws {
        try counters.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(shortestRefreshGap, forKey: .shortestRefreshGap)
    }
}

/// The answer of a route without a result.
package struct DoneMessage: Codable {}
