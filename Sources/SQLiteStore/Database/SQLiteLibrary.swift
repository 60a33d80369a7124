// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDBSQLite

package enum SQLiteLibrary {
    package static var version: String { String(cString: sqlite3_libversion()) }

    /// Whether a commit that restarts the log between two checkpoints can lose committed pages. Fixed in 3.51.3, 3.50.7 and 3.44.6.
    package static var hasWALResetBug: Bool {
        switch Int(sqlite3_libversion_number()) {
        case 3_051_003...: false
        case 3_050_007..<3_051_000: false
        case 3_044_006..<3_045_000: false
        default: true
        }
    }
}
