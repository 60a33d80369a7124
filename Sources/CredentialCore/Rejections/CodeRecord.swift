// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How siwatch judged the last codes of one client for which Apple issued tokens. If nearly all bring no sign-in, the mistake is the
/// backend's or ours, and revoking the tokens would end the consent of each user who tries to sign in.
package struct CodeRecord: Sendable, Equatable {
    private var judged = AnswerWindow()
    private var hasSucceeded = false

    package static let length = 20
    /// The greatest percentage of these codes that may fail.
    static let mostFailed = 20

    package init() {}

    package mutating func append(isFailure: Bool) {
        if !isFailure { hasSucceeded = true }
        judged.append(isFailure, capacity: Self.length)
    }

    /// Nil if siwatch may revoke the tokens of a bad code.
    package var doubt: TokenKept? {
        if !hasSucceeded { return .noneSucceeded }
        return judged.rejections * 100 > judged.count * Self.mostFailed ? .tooManyFailed : nil
    }
}

/// Why siwatch does not revoke the token that a bad code brought.
package enum TokenKept: String, Sendable {
    case signedIn = "signed_in"
    /// The store could not say whether the user has another sign-in.
    case unread
    case nobodyNamed = "nobody_named"
    /// No code of the client has brought a sign-in since the start.
    case noneSucceeded = "none_succeeded"
    case tooManyFailed = "too_many_failed"
    /// siwatch has revoked as many such tokens of the app within an hour as the revocation limit allows at least.
    case limitReached = "limit_reached"

    /// Whether somebody has to correct something.
    package var isMistake: Bool { self == .noneSucceeded || self == .tooManyFailed || self == .limitReached }
}
