// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How siwatch judged the last codes of one client for which Apple issued tokens.
///
/// A single code without a sign-in is a user's trouble, and siwatch revokes the tokens that Apple issued for it. If nearly all codes bring
/// no sign-in, the mistake is the backend's or ours. Revoking would then end the consent of each user who tries to sign in.
package struct CodeRecord: Sendable, Equatable {
    /// Why siwatch revokes nothing.
    package enum Doubt: String, Sendable {
        case noneSucceeded = "none_succeeded"
        case tooManyFailed = "too_many_failed"
    }

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
    package var doubt: Doubt? {
        if !hasSucceeded { return .noneSucceeded }
        return failures.count { $0 } * 100 > failures.count * Self.mostFailed ? .tooManyFailed : nil
    }
}
