// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq

/// The libpq of this machine. siwatch loads it on first use.
package enum PostgresLibrary {
    /// Nil if there is no libpq.
    package static var version: String? {
        guard problem == nil else { return nil }
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }

    /// Why siwatch cannot use libpq; nil if it can.
    static var problem: String? { CLibpqProblem().map { String(cString: $0) } }
}
