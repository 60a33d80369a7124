// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Derives the state of every credential anew from its registers, and finds credentials whose stored state differs.
package struct StandingAudit: Sendable {
    package private(set) var count = 0
    /// The first of the credentials whose stored states differ is `first`.
    package private(set) var different = 0
    package private(set) var first: (client: Int64, userID: String)?

    package init() {}

    /// The registers that decide a state, and the stored state.
    package static let table = StoredTable(
        "credential c LEFT JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app",
        .view,
        key: "c.user_id, c.client",
        .texts("c.user_id", "c.state", "c.reason"),
        .integers("c.client", "c.changed_at", "c.granted_at", "c.token_granted_at", "c.revoked_at", "c.verified_at", "c.rejected_at"),
        .integers("u.consent_revoked_at", "u.deleted_at", "u.revoked_at")
    )

    package mutating func look(at rows: StoredRows) {
        for row in rows {
            func time(_ column: Int) -> Timestamp? { row[column].number.map(Timestamp.init(milliseconds:)) }
            var credential = Credential()
            credential.grantedAt = time(5)
            credential.token = time(6).map { RefreshToken(key: RefreshToken.Key(grantedAt: $0, fingerprint: []), sealed: nil) }
            credential.revokedAt = time(7)
            credential.verifiedAt = time(8)
            credential.rejectedAt = time(9)
            var user = AppUser()
            user.consentRevokedAt = time(10)
            user.deletedAt = time(11)
            user.revokedAt = time(12)
            let standing = credential.standing(under: user)
            count += 1
            if row[1].text == standing.state.rawValue, row[2].text == standing.reason.rawValue, time(4) == standing.since { continue }
            different += 1
            if first == nil { first = (row[3].number ?? 0, row[0].text ?? "") }
        }
    }
}
