// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Claims without limits of clients, by a clock that is right.
extension WorkStore {
    package func dueRevocations(upTo limit: Int, at now: Timestamp) async throws -> [String: Int] {
        try await dueRevocations(upTo: limit, at: now, trusted: now, quotas: [:])
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, upTo limit: Int, at now: Timestamp) async throws -> [DueCredential] {
        try await takeCanaries(userIDs, of: app, excluding: [], upTo: limit, at: now)
    }
}
