// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The times that a sign-in may have. A session with a later one would outlive each revocation.
struct SignInTimes: Sendable {
    let clock: WallClock
    let latest: @Sendable () -> Timestamp

    func mistake(_ signedInAt: Int64?) -> String? {
        guard let signedInAt, signedInAt > latest().milliseconds else { return nil }
        return "signed_in_at is minutes ahead of siwatch's clock: it comes from the answer to the sign-in, or is the iat of the id_token × "
            + "1000 + 999, and never the time of another clock"
    }

    /// Whether a sign-in that is told now was long ago.
    func isLate(_ signedInAt: Timestamp?) -> Bool { signedInAt.map { $0.advanced(by: .minutes(15)) < latest() } ?? false }

    /// Whether a session began with the question about it. Few do.
    func isNow(_ signedInAt: Timestamp) -> Bool { abs(signedInAt.milliseconds - clock.now.milliseconds) < 5_000 }
}
