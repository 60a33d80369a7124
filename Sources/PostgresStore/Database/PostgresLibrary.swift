// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq

/// The libpq of this machine, which is loaded when it is first asked for.
package enum PostgresLibrary {
    /// Nil where there is none.
    package static var version: String? {
        guard problem == nil else { return nil }
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }

    /// Why it cannot be used.
    static var problem: String? { CLibpqProblem().map { String(cString: $0) } }
}
