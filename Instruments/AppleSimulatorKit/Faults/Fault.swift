// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Deliberate trouble: the requests that it hits, and its effect on them.
package struct Fault: Sendable, Equatable {
    /// The endpoint that it hits; all of them, if absent.
    package var endpoint: Endpoint?
    /// Only requests to the token endpoint with this `grant_type`.
    package var grantType: String?
    /// Only requests with a token or code of these users.
    package var userIDs: Set<String>?
    /// Only requests with a token or code of this share of all users, 0…1: the same ones each time.
    package var userShare: Double?
    /// Only requests that name this client.
    package var clientID: String?
    /// How many requests it hits before it ends; no limit, if absent.
    package var count: Int?
    /// How long the request waits first.
    package var delay: Duration = .zero
    /// Whether the request never reaches Apple's logic, or Apple obeys it and only the answer gets lost.
    package var loss = Loss.request
    package var effect = Effect.none

    package init() {}

    package enum Loss: String, Sendable, Codable {
        case request, answer
    }

    package enum Effect: Sendable, Equatable {
        /// Nothing but the delay.
        case none
        /// Apple's own answer, with an unusual id_token. It hits requests to the token endpoint only.
        case idToken(IDTokenStyle)
        case answer(ScriptedAnswer)
        /// The head and the first half of the answer's body, then a reset of the connection.
        case cut(ScriptedAnswer)
        /// A reset of the connection (TCP RST) with no byte of an answer.
        case reset
        /// No answer until the client goes away or the simulator stops.
        case hang

        /// Whether something else replaces Apple's answer, so that Apple's answer can get lost.
        var replacesAnswer: Bool {
            switch self {
            case .none, .idToken: false
            case .answer, .cut, .reset, .hang: true
            }
        }
    }
}

/// An answer in place of Apple's.
package struct ScriptedAnswer: Sendable, Equatable {
    package var status: Int
    package var headers: [String: String]
    package var body: String
    /// How many spaces follow the body, for a huge answer from a small script. JSON allows them.
    package var padding: Int

    package init(status: Int, headers: [String: String] = [:], body: String = "", padding: Int = 0) {
        self.status = status
        self.headers = headers
        self.body = body
        self.padding = padding
    }
}

// MARK: Common faults

extension Fault {
    package static func answer(_ status: Int, headers: [String: String] = [:], body: String = "", count: Int? = nil) -> Fault {
        var fault = Fault()
        fault.count = count
        fault.effect = .answer(ScriptedAnswer(status: status, headers: headers, body: body))
        return fault
    }

    /// A 400 of the token endpoint with one of the codes of RFC 6749 section 5.2.
    package static func error(_ code: String, count: Int? = nil) -> Fault {
        var fault = answer(400, headers: ["Content-Type": "application/json"], body: #"{"error":"\#(code)"}"#, count: count)
        fault.endpoint = .token
        return fault
    }

    /// An unusual id_token in answers to codes.
    package static func idToken(_ style: IDTokenStyle, count: Int? = nil) -> Fault {
        var fault = Fault()
        fault.endpoint = .token
        fault.grantType = "authorization_code"
        fault.count = count
        fault.effect = .idToken(style)
        return fault
    }

    package static func delay(_ delay: Duration, count: Int? = nil) -> Fault {
        var fault = Fault()
        fault.count = count
        fault.delay = delay
        return fault
    }

    package static func reset(count: Int? = nil) -> Fault {
        var fault = Fault()
        fault.count = count
        fault.effect = .reset
        return fault
    }

    package static func hang(count: Int? = nil) -> Fault {
        var fault = Fault()
        fault.count = count
        fault.effect = .hang
        return fault
    }

    /// The same fault, for these users only.
    package func of(_ userIDs: String...) -> Fault {
        var fault = self
        fault.userIDs = Set(userIDs)
        return fault
    }

    /// The same fault, at this endpoint only.
    package func at(_ endpoint: Endpoint) -> Fault {
        var fault = self
        fault.endpoint = endpoint
        return fault
    }

    /// The same fault, after Apple has obeyed the request.
    package func afterObeying() -> Fault {
        var fault = self
        fault.loss = .answer
        return fault
    }
}
