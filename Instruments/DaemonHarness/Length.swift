// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// How long a test is that proves the same with less.
package enum Length {
    /// Whether `make test-full` runs the tests.
    package static let isFull = ProcessInfo.processInfo.environment["SIWATCH_TEST_FULL"] != nil

    /// - Returns: `short`, or `full` if `make test-full` runs the tests.
    package static func of<Value>(_ short: Value, full: Value) -> Value { isFull ? full : short }
}
