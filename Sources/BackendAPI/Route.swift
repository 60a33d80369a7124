// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird

struct Route {
    let operation: Operation
    /// The part of the path that names a row or a user.
    let name: String

    /// As openapi.json names it.
    enum Operation: String {
        case getDescription, receiveNotification, forwardNotification, getChanges
        case signIn, getSignIn, delete, getDeletion, getUser, endsSession

        var method: HTTPRequest.Method {
            switch self {
            case .receiveNotification, .forwardNotification, .signIn, .delete: .post
            case .getDescription, .getSignIn, .getDeletion, .getUser, .endsSession, .getChanges: .get
            }
        }

        /// What it asks the database for; nil if it asks nothing.
        var use: BackendAPI.DatabaseUse? { self == .getDescription ? nil : method == .post ? .writing : .reading }
    }

    /// Nil if there is no such path.
    init?(_ path: String) {
        // By the slashes as they came, so that an encoded one stays within its part.
        var parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(Self.decoded)
        name = parts.count > 2 ? parts[2] ?? "" : ""
        if parts.count > 2 { parts[2] = "*" }
        switch parts {
        case ["openapi.json"]: operation = .getDescription
        case ["apple", "notifications"]: operation = .receiveNotification
        case ["v1", "notifications"]: operation = .forwardNotification
        case ["v1", "sign-ins"]: operation = .signIn
        case ["v1", "sign-ins", "*"]: operation = .getSignIn
        case ["v1", "deletions"]: operation = .delete
        case ["v1", "deletions", "*"]: operation = .getDeletion
        case ["v1", "users", "*"]: operation = .getUser
        case ["v1", "users", "*", "ends-session"]: operation = .endsSession
        case ["v1", "changes"]: operation = .getChanges
        default: return nil
        }
    }

    private static func decoded(_ part: Substring) -> String? {
        part.utf8.contains(UInt8(ascii: "%")) ? String(part).removingPercentEncoding : String(part)
    }
}
