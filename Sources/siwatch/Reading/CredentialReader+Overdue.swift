// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension CredentialReader {
    /// How many checks of each app are a minute late or more, counted up to a limit. A shorter wait is a wait for a permit.
    func overdueChecks(at now: Timestamp) async throws -> [String: Int] {
        try await overdueCredentials(before: now.advanced(by: .minutes(-1)), upTo: mostOverdueCounted)
    }
}

/// The limit for one app.
let mostOverdueCounted = 100_000
