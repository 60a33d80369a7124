// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How siwatch judged the last codes of one client for which Apple issued tokens.
///
/// A single code without a sign-in is a user's trouble, and siwatch revokes the tokens that Apple issued for it. If nearly all codes bring
/// no sign-in, the mistake is the backend's or ours. Revoking would then end the consent of each user who tries to sign in.
package struct CodeRecord: Sendable, Equatable {
    /// Newest last.
    private var failures: [Bool] = []
    private var hasSucceeded = false

    /// How many of the last codes count.
    package static let length = 20
    /// The greatest percentage of these codes that may fail.
    package static let mostFailed = 20

    package init() {}

    package mutating func append(isFailure: Bool) {
        if !isFailure { hasSucceeded = true }
        if failures.count == Self.length { failures.removeFirst() }
        failures.append(isFailure)
    }

    /// Nil if siwatch may revoke the tokens of a bad code.
    package var doubt: TokenKept? {
        if !hasSucceeded { return .noneSucceeded }
        return failures.count { $0 } * 100 > failures.count * Self.mostFailed ? .tooManyFailed : nil
    }
}

/// Why siwatch does not revoke the token that a bad code brought.
package enum TokenKept: String, Sendable {
    /// The user has another sign-in.
    case signedIn = "signed_in"
    /// The store could not say whether the user has another sign-in.
    case unread
    /// Apple does not say whose token it is.
    case nobodyNamed = "nobody_named"
    /// No code of the client has brought a sign-in since the start.
    case noneSucceeded = "none_succeeded"
    /// Too many of the client's last codes brought no sign-in.
    case tooManyFailed = "too_many_failed"

    /// Whether somebody has to correct something.
    package var isMistake: Bool { self == .noneSucceeded || self == .tooManyFailed }
}
