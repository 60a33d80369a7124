// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Inspector {
    /// After the calm nothing waits, and siwatch knows the whole truth.
    func inspectEnd(_ state: SimulatedWorld.State, isTouchy: Bool) -> Violation? {
        if !state.model.notificationRows.isEmpty || !state.model.grantRows.isEmpty {
            let (notifications, grants) = (state.model.notificationRows.count, state.model.grantRows.count)
            return Violation(.nothingIsStuck, "\(notifications) notifications and \(grants) grants still wait")
        }
        let good = state.goodClients
        if let violation = everyRequestIsAnswered(state, isTouchy ? [] : good) { return violation }
        for credential in state.model.credentials.sorted(by: { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }) {
            if let violation = isKnown(credential, state, isTouchy ? [] : good) { return violation }
        }
        return nil
    }

    private func isKnown(_ credential: CredentialID, _ state: SimulatedWorld.State, _ good: Set<String>) -> Violation? {
        guard let row = state.model.row(of: credential), let signIn = state.apple.newestSignIn(of: credential),
            state.model.inserted[credential, default: []].contains(signIn.at), !state.misdated.contains(credential.userID)
        else { return nil }
        if row.reason == "revoked_by_app" { return isRevoked(credential, row, signIn, state) }
        if signIn.endedAt == nil, row.state != "authorized", !state.model.poisoned.contains(credential) {
            return Violation(.noFalseRevocation, "\(credential.name) is signed in, and ends as \(row.state) \(row.reason)")
        }
        // siwatch can ask only with a token of this sign-in, or with one that Apple has accepted since. A token that a backend repeated
        // with this sign-in may have ended before it, if Apple rejects the token before accepting it anew. Without a 200 in the app siwatch
        // believes no rejection. It also believes none that Apple gave to another team than the one that it accepted the token from.
        let isOfSignIn = state.model.tokenIsOfNewestSignIn(credential)
        // A revocation or an event may have erased an older token, and ended its sign-in. The end of an older token says nothing of a later
        // sign-in, and siwatch takes a job's row for one.
        let isSeenSince = row.holdsToken && row.verifiedAt.map { $0 >= signIn.at.milliseconds } ?? false
        let isOurs = isOfSignIn || isSeenSince && !state.toldByJob.contains(credential)
        // Where a revocation ends its token alone, the token of an older sign-in may live on.
        let isAlive = state.model.tokenText(of: credential).map { state.apple.isAlive($0, at: credential) } ?? false
        if signIn.endedAt != nil, row.verifiedAt != nil, isOurs, !isAlive, row.state == "authorized", good.contains(credential.clientID),
            !state.datedAhead.contains(credential.userID),
            row.verifiedTeam == "TEAM\(state.apple.team(of: credential.clientID))"
        {
            return Violation(.nothingIsStuck, "\(credential.name) has left, and is still authorized after all this time")
        }
        return nil
    }

    /// Each request has its receipt, with two exceptions. Nothing may be known at a client that Apple refuses. A token that was dead from
    /// the first may never count as dead if Apple accepts no token of its client any more. The answer takes up to two intervals from the
    /// first question. A request that waits for another one of the same credential begins late.
    ///
    /// - Parameter good: clients at which Apple accepts a user's token.
    private func everyRequestIsAnswered(_ state: SimulatedWorld.State, _ good: Set<String>) -> Violation? {
        let model = state.model
        let latest = state.now.advanced(by: .zero - SimulatedProcess.policy.longestInterval * 2 - BreakerRules().settle)
        let unopened = model.requestRows.filter { request in !model.revocations.keys.contains { $0.request == request.key } }
        let open = model.revocations.filter { $0.key.clientID != state.apple.refused }.values.filter { open in
            open.before != .rejected && !open.isAskedAnew || good.contains(open.credential.clientID) && open.openedAt <= latest
        }
        // A second request for the same credential waits for the first.
        let isStuck = unopened.contains { request in
            !model.revocations.values.contains { $0.credential.userID == request.value.credential.userID }
        }
        if !isStuck, open.isEmpty { return nil }
        return Violation(.nothingIsStuck, "\(unopened.count) requests to revoke wait, and \(open.count) tokens")
    }

    /// A violation, if the user has signed in since the revocation, or Apple still accepts the revoked token.
    private func isRevoked(
        _ credential: CredentialID,
        _ row: ReferenceModel.Row,
        _ signIn: ScriptedApple.SignIn,
        _ state: SimulatedWorld.State
    ) -> Violation? {
        // Where our clock is wrong, only the second is known.
        if let revokedAt = row.changedAt, revokedAt < signIn.at.second.milliseconds, !state.model.poisoned.contains(credential) {
            return Violation(.noFalseRevocation, "\(credential.name) has signed in again, and ends as revoked by the app")
        }
        guard let text = state.model.tokenText(of: credential), state.apple.isAlive(text, at: credential),
            !state.ledger.proofs.belied.contains(text), let token = state.model.facts[credential]!.token
        else { return nil }
        if state.model.facts[credential]!.revokedTokens.contains(token) {
            return Violation(.noFalseRevocation, "\(credential.name) ends as revoked by the app, and Apple still accepts the token")
        }
        // The sign-in was told after another of the user, which its revocation could have ended.
        if state.model.hasSignedIn(credential, after: row.changedAt.map(Timestamp.init(milliseconds:)) ?? .earliest) { return nil }
        let isAnswered = state.model.facts[credential]!.answeredTokens.contains(token)
        if isAnswered || state.model.revocations.values.contains(where: { $0.credential == credential && $0.token == token }) { return nil }
        return Violation(.nothingIsLost, "\(credential.name) ends as revoked by the app, and its token lives that nobody has asked about")
    }
}

extension SimulatedWorld.State {
    /// The clients with a token that siwatch holds and Apple accepts. No other client can get a 200, nor can the client that Apple refuses
    /// for good. A blamed client holds back the rejections of another only until the other gets a 200.
    fileprivate var goodClients: Set<String> {
        let good = model.credentials.filter { credential in
            model.row(of: credential)?.holdsToken == true && credential.clientID != apple.refused
                && model.tokenText(of: credential).map { apple.isAccepted($0, at: credential) } ?? false
        }
        return Set(good.map(\.clientID))
    }
}
