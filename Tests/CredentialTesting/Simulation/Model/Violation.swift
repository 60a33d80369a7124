// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A broken invariant. docs/truth.md has the rules behind it.
package struct Violation: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Invariant: String, Sendable {
        /// No committed queue row is lost.
        case nothingIsLost = "I1"
        /// Effects are exactly once.
        case effectsAreOnce = "I2"
        /// State is a function of the admitted facts.
        case stateFollowsFromFacts = "I3"
        /// One answered validation per credential and interval.
        case oneAnswerPerInterval = "I4"
        /// No false revocation.
        case noFalseRevocation = "I5"
        /// Nothing is stuck.
        case nothingIsStuck = "I6"
        /// The change log, replayed, is the view.
        case newsArrives = "I12"
    }

    package var invariant: Invariant
    package var text: String

    init(_ invariant: Invariant, _ text: String) { (self.invariant, self.text) = (invariant, text) }

    init<Value>(_ invariant: Invariant, _ subject: String, is found: Value, not expected: Value?) {
        self.init(invariant, "\(subject) is\n  \(found), by the rules\n  \(expected.map { "\($0)" } ?? "nothing")")
    }

    package var description: String { "\(invariant.rawValue) \(invariant): \(text)" }
}
