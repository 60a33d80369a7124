// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How the last codes of one client were judged, of those for which Apple issued tokens.
///
/// A single code that brings no sign-in is a user's trouble, and what Apple issued for it is revoked. Where nearly all bring none, the
/// mistake is the backend's or ours: to revoke then would end the consent of each user who tries to sign in.
package struct CodeRecord: Sendable, Equatable {
    /// Why nothing is revoked.
    package enum Doubt: String, Sendable {
        case noneSucceeded = "none_succeeded"
        case tooManyFailed = "too_many_failed"
    }

    /// The newest last.
    private var failures: [Bool] = []
    private var hasSucceeded = false

    /// How many of the last codes count.
    package static let length = 20
    /// Of those, as many of a hundred may fail.
    package static let mostFailed = 20

    package init() {}

    package mutating func append(isFailure: Bool) {
        if !isFailure { hasSucceeded = true }
        if failures.count == Self.length { failures.removeFirst() }
        failures.append(isFailure)
    }

    /// Nil where what a bad code brought may be revoked.
    package var doubt: Doubt? {
        if !hasSucceeded { return .noneSucceeded }
        return failures.count { $0 } * 100 > failures.count * Self.mostFailed ? .tooManyFailed : nil
    }
}
