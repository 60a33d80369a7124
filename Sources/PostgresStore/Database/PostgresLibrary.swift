// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq

/// The libpq that is at work.
package enum PostgresLibrary {
    package static var version: String {
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }
}
