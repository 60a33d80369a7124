// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What siwatch has to say of one credential.
struct Expectation {
    var state: String
    var reason: String
    /// Nil where nobody but the one who asks can know the moment.
    var changedAt: Int64?

    /// From what is true at Apple and what siwatch was told of it.
    ///
    /// An ending of which it was not told shows as a rejected token, from the moment of the check that found it.
    init(_ truth: CredentialTruth, of userID: String, _ ledger: Ledger) {
        if truth.state == "authorized" || ledger.isKnown(Ledger.Ending(userID: userID, time: truth.changedAt)) {
            state = truth.state
            reason = truth.reason
            changedAt = truth.changedAt
        } else {
            state = "revoked"
            reason = "token_rejected"
        }
    }

    func isMet(by standing: Observation.Standing?) -> Bool {
        guard let standing else { return false }
        return standing.state == state && standing.reason == reason && (changedAt == nil || standing.changedAt == changedAt)
    }
}

extension UserTruth {
    /// The reason that `user_state` has to show: authorized if any client is, else the latest.
    func expectedReason(_ ledger: Ledger) -> String {
        let authorized = credentials.first { $0.state == "authorized" }
        let latest = authorized ?? credentials.max { $0.changedAt < $1.changedAt }
        return latest.map { Expectation($0, of: userID, ledger).reason } ?? "never_granted"
    }

    /// What siwatch has to say of mail: nothing before the first event, and nothing of a deleted account.
    func expectedForwarding(_ ledger: Ledger) -> String? {
        isDeleted || !ledger.hasMailEvents(userID) ? nil : forwarding
    }
}
