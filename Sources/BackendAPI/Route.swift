// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Hummingbird

/// A path of the interface.
enum Route: Equatable {
    case description
    case appleNotifications
    case notifications
    case signIns
    /// Nil for an id that siwatch does not give.
    case signIn(RowReference?)
    case deletions
    case deletion(RowReference?)
    case user(String)
    case sessionEnd(String)
    case changes

    /// Nil if there is no such path.
    init?(_ path: String) {
        // By the slashes as they came, so that an encoded one stays within its part.
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(Self.decoded)
        switch (parts.first ?? nil, parts.count > 1 ? parts[1] : nil, parts.count) {
        case ("openapi.json", _, 1): self = .description
        case ("apple", "notifications", 2): self = .appleNotifications
        case ("v1", "notifications", 2): self = .notifications
        case ("v1", "sign-ins", 2): self = .signIns
        case ("v1", "deletions", 2): self = .deletions
        case ("v1", "changes", 2): self = .changes
        case ("v1", "sign-ins", 3):
            self = .signIn(parts[2].flatMap(RowReference.init))
        case ("v1", "deletions", 3):
            self = .deletion(parts[2].flatMap(RowReference.init))
        case ("v1", "users", 3):
            self = .user(parts[2] ?? "")
        case ("v1", "users", 4) where parts[3] == "ends-session":
            self = .sessionEnd(parts[2] ?? "")
        default: return nil
        }
    }

    private static func decoded(_ part: Substring) -> String? {
        part.utf8.contains(UInt8(ascii: "%")) ? String(part).removingPercentEncoding : String(part)
    }

    private var isPosted: Bool {
        switch self {
        case .appleNotifications, .notifications, .signIns, .deletions: true
        case .description, .signIn, .deletion, .user, .sessionEnd, .changes: false
        }
    }

    /// What it asks the database for; nil if it asks nothing.
    var use: BackendAPI.DatabaseUse? { self == .description ? nil : isPosted ? .writing : .reading }

    /// The `Allow` header.
    var methods: String { isPosted ? "POST" : "GET" }

    /// The operation as openapi.json names it. Nil if the path does not take the method.
    func operation(_ method: HTTPRequest.Method) -> String? {
        guard method == (isPosted ? .post : .get) else { return nil }
        return switch self {
        case .description: "getDescription"
        case .appleNotifications: "receiveNotification"
        case .notifications: "forwardNotification"
        case .signIns: "signIn"
        case .signIn: "getSignIn"
        case .deletions: "delete"
        case .deletion: "getDeletion"
        case .user: "getUser"
        case .sessionEnd: "endsSession"
        case .changes: "getChanges"
        }
    }
}
