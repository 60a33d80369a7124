// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Deliberate trouble: the requests that it hits, and its effect on them.
package struct Fault: Sendable, Codable, Equatable {
    /// The endpoint that it hits; all of them, if absent.
    package var endpoint: Endpoint?
    /// Only requests to the token endpoint with this `grant_type`. A fault without it hits every other grant than `client_credentials`.
    package var grantType: String?
    package var userIDs: Set<String>?
    /// Only requests with a token or code of this share of all users, 0…1: the same ones each time.
    package var userShare: Double?
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

    package init(_ adjust: (inout Fault) -> Void = { _ in }) { adjust(&self) }

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

    // MARK: Common faults

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

    package func of(_ userIDs: String...) -> Fault { with { $0.userIDs = Set(userIDs) } }
    package func at(_ endpoint: Endpoint) -> Fault { with { $0.endpoint = endpoint } }

    /// The same fault, for requests that prove a client.
    package var ofClientCredentials: Fault { at(.token).with { $0.grantType = TokenRequest.clientCredentials } }

    /// The same fault, after Apple has obeyed the request.
    package func afterObeying() -> Fault { with { $0.loss = .answer } }
}

/// The faults in force, oldest first. The first fault that fits a request hits it, and no other does.
struct FaultScript: Sendable {
    private var scheduled: [ScheduledFault] = []
    private var lastID = 0

    /// - Returns: the id to clear it by.
    mutating func add(_ fault: Fault) -> Int {
        lastID += 1
        scheduled.append(ScheduledFault(id: lastID, remaining: fault.count, fault: fault))
        return lastID
    }

    mutating func clear(_ id: Int) throws(SimulatorError) {
        guard let index = scheduled.firstIndex(where: { $0.id == id }) else { throw .unknownFault(id) }
        scheduled.remove(at: index)
    }

    mutating func clear() { scheduled = [] }

    /// The fault that hits a request about a user, if it names one. The request uses up one of the fault's count.
    mutating func next(at endpoint: Endpoint, _ form: FormBody?, of userID: String?) -> Fault? {
        guard let index = scheduled.firstIndex(where: { $0.fault.meets(endpoint, form, of: userID) }) else { return nil }
        let fault = scheduled[index].fault
        if let remaining = scheduled[index].remaining {
            scheduled[index].remaining = remaining - 1
            if remaining <= 1 { scheduled.remove(at: index) }
        }
        return fault
    }

    var all: [ScheduledFault] { scheduled }
}

package struct ScheduledFault: Sendable, Codable, Equatable {
    package let id: Int
    /// How many more requests it hits; `nil` for all until a caller clears it.
    package internal(set) var remaining: Int?
    package let fault: Fault
}

extension Fault {
    fileprivate func meets(_ asked: Endpoint, _ form: FormBody?, of userID: String?) -> Bool {
        if let endpoint, endpoint != asked { return false }
        if idToken != nil, asked != .token { return false }
        // siwatch proves its clients at a time of its own, so only a fault that means these requests hits them.
        let wanted = form?["grant_type"]
        if grantType != wanted, grantType != nil || wanted == TokenRequest.clientCredentials { return false }
        if let clientID, clientID != form?["client_id"] { return false }
        if let userIDs, !(userID.map(userIDs.contains) ?? false) { return false }
        if let userShare { return userID.map { Self.place(of: $0) < userShare } ?? false }
        return true
    }

    /// A number in 0..<1 that never changes for a user: FNV-1a of the id. The upper half of the hash is mixed better.
    private static func place(of userID: String) -> Double {
        let hash = userID.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return Double(hash >> 11) / Double(1 << 53)
    }
}
