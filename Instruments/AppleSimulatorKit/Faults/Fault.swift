// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Deliberate trouble: the requests that it hits, and its effect on them.
package struct Fault: Sendable, Codable, Equatable {
    /// The endpoint that it hits; all of them, if absent.
    package var endpoint: Endpoint?
    /// Only requests to the token endpoint with this `grant_type`. A fault without it hits every other grant than `client_credentials`.
    package var grantType: String?
    /// Only requests with a token or code of these users.
    package var userIDs: Set<String>?
    /// Only requests with a token or code of this share of all users, 0…1: the same ones each time.
    package var userShare: Double?
    /// Only requests that name this client.
    package var clientID: String?
    /// How many requests it hits before it ends; no limit, if absent.
    package var count: Int?
    /// How long the request waits first, in milliseconds.
    package var delay: Int64?
    /// Whether the request never reaches Apple's logic, or Apple obeys it and only the answer gets lost. Absent means the request.
    package var loss: Loss?
    package var connection: Connection?
    /// Apple's own answer gets an unusual id_token. It hits requests to the token endpoint only.
    package var idToken: IDTokenStyle?
    /// The status of an answer in place of Apple's, with the next three members.
    package var status: Int?
    package var headers: [String: String]?
    package var body: String?
    /// How many spaces follow the body, for a huge answer from a small script. JSON allows them.
    package var padding: Int?

    package init(_ adjust: (inout Fault) -> Void = { _ in }) {
        adjust(&self)
    }

    package enum Loss: String, Sendable, Codable {
        case request, answer
    }

    /// The fate of the connection, beyond carrying an answer.
    package enum Connection: String, Sendable, Codable {
        /// A reset of the connection (TCP RST) with no byte of an answer.
        case reset
        /// No answer until the client goes away or the simulator stops.
        case hang
        /// The head and the first half of the body, then a reset of the connection.
        case cut
    }

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
}

// MARK: Common faults

extension Fault {
    package static func answer(_ status: Int, headers: [String: String] = [:], body: String = "", count: Int? = nil) -> Fault {
        Fault { ($0.count, $0.status, $0.headers, $0.body) = (count, status, headers, body) }
    }

    /// A 400 of the token endpoint with one of the codes of RFC 6749 section 5.2.
    package static func error(_ code: String, count: Int? = nil) -> Fault {
        answer(400, headers: ["Content-Type": "application/json"], body: #"{"error":"\#(code)"}"#, count: count).at(.token)
    }

    /// An unusual id_token in answers to codes.
    package static func idToken(_ style: IDTokenStyle, count: Int? = nil) -> Fault {
        Fault { ($0.endpoint, $0.grantType, $0.count, $0.idToken) = (.token, "authorization_code", count, style) }
    }

    package static func delay(_ delay: Duration, count: Int? = nil) -> Fault {
        Fault { ($0.count, $0.delay) = (count, delay.wholeMilliseconds) }
    }

    package static func reset(count: Int? = nil) -> Fault { Fault { ($0.count, $0.connection) = (count, .reset) } }
    package static func hang(count: Int? = nil) -> Fault { Fault { ($0.count, $0.connection) = (count, .hang) } }

    package func with(_ change: (inout Fault) -> Void) -> Fault {
        var fault = self
        change(&fault)
        return fault
    }

    /// The same fault, for these users only.
    package func of(_ userIDs: String...) -> Fault { with { $0.userIDs = Set(userIDs) } }

    /// The same fault, at this endpoint only.
    package func at(_ endpoint: Endpoint) -> Fault { with { $0.endpoint = endpoint } }

    /// The same fault, for requests that prove a client.
    package var ofClientCredentials: Fault { at(.token).with { $0.grantType = TokenRequest.clientCredentials } }

    /// The same fault, after Apple has obeyed the request.
    package func afterObeying() -> Fault { with { $0.loss = .answer } }
}
