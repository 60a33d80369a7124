// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension AppleWorld {
    /// Ends the person's consent to the app group of a token.
    ///
    /// Changes nothing, and does not tell the caller, if the token is dead, unknown, a code or of another client, or the secret is bad.
    ///
    /// - Returns: Apple's notifications, if the configuration asks for any.
    mutating func revoke(_ request: RevocationRequest, now: Moment) -> [NotificationDraft] {
        counters.revocations.asked += 1
        guard let index = grant(of: request.token, .refresh, .access), grants[index].isAlive,
            grants[index].clientID == request.clientID
        else {
            return []
        }
        do {
            try authenticate(request.clientID, secret: request.clientSecret, now: now)
        } catch {
            counters.count(error)
            return []
        }
        let (user, group) = (grants[index].user, grants[index].group)
        counters.revocations.effective += 1
        endConsent(of: user, in: group, .revokedByApp, at: now)
        return configuration.revocationNotifies ? [draft(.consentRevoked, user, group, Emission(), now: now)] : []
    }
}
