// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What is kept of a forgotten user: a row of `user_event` with the pseudonym for its `user_id` and a time for `deleted_at`.
extension TableConnection {
    /// Keeps the time of the newest known fact under the pseudonym, so that no older fact brings the user back.
    ///
    /// - Returns: that time; nil if nothing was known.
    @discardableResult
    func remember(_ user: UserRecord, as pseudonym: String, in directory: ClientDirectory) throws -> Timestamp? {
        guard let newest = user.newestFact else { return nil }
        try execute(
            """
            INSERT INTO user_event AS u (user_id, app, deleted_at) VALUES (\(pseudonym), \(directory.app(user.id.app).id), \(newest))
                ON CONFLICT (user_id, app) DO UPDATE SET deleted_at = \(dialect.greatest)(u.deleted_at, excluded.deleted_at)
            """
        )
        return newest
    }

    /// Takes users out of the counts.
    func uncount(_ users: [UserRecord], in directory: ClientDirectory) throws {
        guard !users.isEmpty else { return }
        var tallies: [String: UserRecord.Tally] = [:]
        for user in users {
            tallies[user.id.app, default: UserRecord.Tally()].change(from: user.tally, to: UserRecord.Tally())
        }
        try save([], tallies: tallies, in: directory)
        for (app, users) in Dictionary(grouping: users, by: \.id.app) {
            for (state, gone) in Dictionary(grouping: users.flatMap(\.holdings).compactMap(\.standing?.state), by: { $0 }) {
                try execute(
                    """
                    UPDATE credential_count SET count = count - \(gone.count)
                     WHERE app = \(directory.app(app).id) AND state = \(state.rawValue)
                    """
                )
            }
        }
    }
}

extension UserRecord {
    /// The time of the newest fact about the user.
    fileprivate var newestFact: Timestamp? {
        let ofUser = [
            registers.consentRevokedAt, registers.deletedAt, registers.revokedAt, registers.mailbox?.at, registers.forwarding?.at,
        ]
        let ofClients = holdings.flatMap { holding in
            let credential = holding.record.credential
            return [credential.grantedAt, credential.token?.key.grantedAt, credential.revokedAt]
        }
        return (ofUser + ofClients).compactMap(\.self).max()
    }
}
