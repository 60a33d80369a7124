// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Fault: ControlMessage {
    static let members = CodingKeys.names

    enum CodingKeys: String, CodingKey, CaseIterable {
        case endpoint
        case grantType = "grant_type"
        case userIDs = "user_ids"
        case userShare = "user_share"
        case clientID = "client_id"
        case count
        case delay = "delay_ms"
        case loss = "loses"
        case connection
        case idToken = "id_token"
        case status, headers, body, padding
    }

    /// The fate of the connection, beyond carrying an answer.
    private enum Connection: String, Codable {
        case reset, hang, cut
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init()
        endpoint = try container.decodeIfPresent(Endpoint.self, forKey: .endpoint)
        grantType = try container.decodeIfPresent(String.self, forKey: .grantType)
        userIDs = try container.decodeIfPresent(Set<String>.self, forKey: .userIDs)
        userShare = try container.decodeIfPresent(Double.self, forKey: .userShare)
        clientID = try container.decodeIfPresent(String.self, forKey: .clientID)
        count = try container.decodeIfPresent(in: 1...Int.max, forKey: .count)
        delay = .milliseconds(try container.decodeIfPresent(in: 0...86_400_000, forKey: .delay) ?? 0)
        loss = try container.decodeIfPresent(Loss.self, forKey: .loss) ?? .request
        let answer = try container.decodeIfPresent(in: 200...599, forKey: .status).map { status in
            ScriptedAnswer(
                status: status,
                headers: try container.decodeIfPresent([String: String].self, forKey: .headers) ?? [:],
                body: try container.decodeIfPresent(String.self, forKey: .body) ?? "",
                padding: try container.decodeIfPresent(in: 0...1_000_000_000, forKey: .padding) ?? 0
            )
        }
        let connection = try container.decodeIfPresent(Connection.self, forKey: .connection)
        if let style = try container.decodeIfPresent(IDTokenStyle.self, forKey: .idToken) {
            guard connection == nil, answer == nil else {
                throw ControlError.malformed("An id_token stands in Apple's own answer, not in a scripted or lost one.")
            }
            effect = .idToken(style)
            return
        }
        effect =
            switch (connection, answer) {
            case (nil, nil): .none
            case (nil, let answer?): .answer(answer)
            case (.cut, let answer?): .cut(answer)
            case (.cut, nil): throw ControlError.malformed("An answer can only be cut if it has a status and a body.")
            case (.reset, _): .reset
            case (.hang, _): .hang
            }
    }
}

extension Fault: Encodable {
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(endpoint, forKey: .endpoint)
        try container.encodeIfPresent(grantType, forKey: .grantType)
        try container.encodeIfPresent(userIDs?.sorted(), forKey: .userIDs)
        try container.encodeIfPresent(userShare, forKey: .userShare)
        try container.encodeIfPresent(clientID, forKey: .clientID)
        try container.encodeIfPresent(count, forKey: .count)
        if delay > .zero { try container.encode(delay.wholeMilliseconds, forKey: .delay) }
        try container.encode(loss, forKey: .loss)
        switch effect {
        case .none:
            break
        case .idToken(let style):
            try container.encode(style, forKey: .idToken)
        case .answer(let answer):
            try answer.encode(into: &container)
        case .cut(let answer):
            try container.encode(Connection.cut, forKey: .connection)
            try answer.encode(into: &container)
        case .reset:
            try container.encode(Connection.reset, forKey: .connection)
        case .hang:
            try container.encode(Connection.hang, forKey: .connection)
        }
    }
}

extension ScriptedAnswer {
    fileprivate func encode(into container: inout KeyedEncodingContainer<Fault.CodingKeys>) throws {
        try container.encode(status, forKey: .status)
        if !headers.isEmpty { try container.encode(headers, forKey: .headers) }
        try container.encode(body, forKey: .body)
        if padding > 0 { try container.encode(padding, forKey: .padding) }
    }
}

extension ScheduledFault: Encodable {
    private enum CodingKeys: String, CodingKey {
        case id, remaining, fault
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encodeIfPresent(remaining, forKey: .remaining)
        try container.encode(fault, forKey: .fault)
    }
}

/// The answer of `POST /simulator/faults`.
package struct FaultIDMessage: Codable {
    package let id: Int
}

/// The answer of `GET /simulator/faults`.
struct FaultsMessage: Encodable {
    let faults: [ScheduledFault]
}
