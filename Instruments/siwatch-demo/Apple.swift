// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// Somebody who has signed in, and where.
struct Person: Sendable {
    var userID: String
    var clientID: String

    init(_ signIn: SimulatedApple.SignIn) {
        userID = signIn.user_id
        clientID = signIn.client_id
    }
}

/// Something that Apple knows of a person, with the notification that says so.
struct AppleEvent: Decodable, Sendable {
    var type: String
    var userID: String
    /// In milliseconds since 1970, as all times here.
    var time: Int64
    /// The body of Apple's POST.
    var body: String

    enum CodingKeys: String, CodingKey {
        case type
        case userID = "user_id"
        case time = "event_time"
        case body
    }

    /// Whether every token of the person dies of it.
    var isEnding: Bool { type == "consent-revoked" || type.hasPrefix("account-delete") }
}

/// What is true of a person at Apple.
struct UserTruth: Decodable, Sendable {
    var userID: String
    var forwarding: String?
    var isDeleted: Bool
    var credentials: [CredentialTruth]

    enum CodingKeys: String, CodingKey {
        case userID = "user_id"
        case forwarding = "email_forwarding"
        case isDeleted = "account_deleted"
        case credentials
    }
}

/// What is true of a person at one client.
struct CredentialTruth: Decodable, Sendable {
    var clientID: String
    var state: String
    var reason: String
    var changedAt: Int64
    var refreshes: Refreshes

    struct Refreshes: Decodable, Sendable {
        /// When Apple said whether a token is good, oldest first.
        var answeredAt: [Int64]

        enum CodingKeys: String, CodingKey {
            case answeredAt = "answered_at"
        }
    }

    enum CodingKeys: String, CodingKey {
        case clientID = "client_id"
        case state, reason
        case changedAt = "changed_at"
        case refreshes
    }
}

/// What Apple has counted.
struct AppleCounters: Decodable, Sendable {
    /// By endpoint and status.
    private var requests: [String: [String: Int]]
    private var shortestRefreshGap: Int?

    enum CodingKeys: String, CodingKey {
        case requests
        case shortestRefreshGap = "shortest_refresh_gap_ms"
    }

    /// Answers to the question whether a token is good.
    var tokenAnswers: (good: Int, refused: Int) {
        (requests["token"]?["200"] ?? 0, requests["token"]?["400"] ?? 0)
    }

    /// The shortest time between two checks of one token.
    var shortestGap: Int { shortestRefreshGap ?? 0 }
}

extension SimulatedApple {
    private struct Everybody: Decodable { var users: [UserTruth] }
    private struct Events: Decodable { var notifications: [AppleEvent] }
    private struct SignIns: Decodable {
        var signIns: [SignIn]
        enum CodingKeys: String, CodingKey { case signIns = "sign_ins" }
    }

    func everybody() async throws -> [UserTruth] {
        try await get("users", as: Everybody.self).users
    }

    func counters() async throws -> AppleCounters {
        try await get("counters", as: AppleCounters.self)
    }

    /// Lets people do something. `action` is a control route of the simulator.
    func events(_ action: String, _ people: [Person], _ more: [String: JSONValue] = [:]) async throws -> [AppleEvent] {
        let body = more.merging(["user_ids": .array(people.map { .string($0.userID) })]) { $1 }
        return try await post(action, body, as: Events.self).notifications
    }

    /// Lets known people sign in.
    func signInAgain(_ people: [Person], clientID: String) async throws -> [SignIn] {
        let body: [String: JSONValue] = ["user_ids": .array(people.map { .string($0.userID) }), "client_id": .string(clientID)]
        return try await post("sign-ins", body, as: SignIns.self).signIns
    }
}
