// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import NIOConcurrencyHelpers

/// Notices when the database file is moved, removed or replaced under the daemon. From then on backends insert elsewhere, and nobody reads
/// what siwatch writes.
struct DatabaseWatch: Sendable {
    private let store: any CredentialStore
    private let path: String
    private let logger: Logger
    private let found = NIOLockedValueBox<String?>(nil)

    init(_ store: any CredentialStore, at path: String, logger: Logger) {
        self.store = store
        self.path = path
        self.logger = logger
    }

    /// What is wrong with the file, as of the last look. Nil if nothing is wrong, and on a server.
    var trouble: String? { found.withLockedValue { $0 } }

    func look() {
        let now = store.displacement(from: path)
        let before = found.withLockedValue { found in
            defer { found = now }
            return found
        }
        guard now != before else { return }
        if let now { logger.log(.databaseDisplaced, ["error": "\(now)"]) } else { logger.log(.databaseInPlace) }
    }

    func service(every interval: Duration) -> Recurring {
        Recurring(every: interval, onFailure: { _ in }) { look() }
    }
}
