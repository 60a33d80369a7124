// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One line of the summary: what was done, what siwatch says of it, and whether they agree.
struct Figure: Sendable {
    var name: String
    var expected: Int
    var found: Int
    var isRight: Bool

    static func equal(_ name: String, _ expected: Int, _ found: Int) -> Figure {
        Figure(name: name, expected: expected, found: found, isRight: expected == found)
    }

    static func least(_ name: String, _ expected: Int, _ found: Int) -> Figure {
        Figure(name: name, expected: expected, found: found, isRight: found >= expected)
    }
}
