// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Settlements of reported sign-ins.
extension ReferenceModel {
    /// - Parameter due: when the process means to take it, if it found the sign-in dated ahead. It may have stood still since.
    mutating func settle(_ work: ClaimedGrant, due: Timestamp? = nil, at now: Timestamp) -> Settled {
        guard let row = grantRows[work.id], row.held == work.claim else { return .superseded }
        if work.claim.attempts > 5 {
            poisoned.insert(row.credential)
            return close(work.id, .rejected, .poison)
        }
        if !isConfigured(row.credential.clientID) { return putOff(work.id, until: now.advanced(by: .seconds(21_600))) }
        let retry = now.advanced(by: .seconds(600))
        // The process knows Apple's clock to half a second.
        if let due, (Duration.seconds(-1) ... .seconds(1)).contains(row.takenFrom.duration(to: due)), row.lead > .seconds(-1) {
            return putOff(work.id, until: min(due, retry), isAhead: true)
        }
        if due == nil, row.lead > .seconds(1) { return putOff(work.id, until: min(row.takenFrom, retry), isAhead: true) }
        if let text = row.token, recognises(text, of: row.credential, before: row.grantedAt) {
            // siwatch knows nothing of this sign-in.
            inserted[row.credential]?.remove(row.grantedAt)
            return close(work.id, .retold)
        }
        let isNew = row.token.map { !recognises($0, of: row.credential) } ?? false
        let outcome = signIn(row.credential, at: row.grantedAt, token: row.token, address: row.address)
        if isNew, let text = row.token {
            let token = Token(grantedAt: row.grantedAt, fingerprint: PlainSealer().fingerprint(of: Secret(text)))
            meetRequest(token, text, of: row.credential)
        }
        return close(work.id, outcome)
    }

    /// The row waits for its client or its time.
    private mutating func putOff(_ row: Int64, until time: Timestamp, isAhead: Bool = false) -> Settled {
        grantRows[row]!.held = nil
        grantRows[row]!.isUntried = true
        grantRows[row]!.putOffUntil = time
        grantRows[row]!.waitsForItsTime = isAhead
        return .postponed
    }

    /// Whether siwatch knows a token of an earlier sign-in, by any date or by one before a time.
    func recognises(_ text: String, of credential: CredentialID, before time: Timestamp = Timestamp.legal.upperBound) -> Bool {
        guard let facts = facts[credential] else { return false }
        let fingerprint = PlainSealer().fingerprint(of: Secret(text))
        let last = [facts.token, facts.former?.token].compactMap(\.self)
        // Also the last eight of the older tokens.
        let older = facts.tokens.filter { !last.contains($0) }.sorted { $0.grantedAt > $1.grantedAt }.prefix(8)
        return (last + older).contains { $0.fingerprint == fingerprint && $0.grantedAt < time }
    }

    mutating func signIn(_ credential: CredentialID, at grantedAt: Timestamp, token text: String?, address: String?) -> GrantLogOutcome {
        touched.insert(credential.userID)
        var known = facts[credential] ?? Facts()
        let (newest, token, mail) = (known.grants.max(), known.token, userFacts[credential.userID]?.mail)
        known.grants.insert(grantedAt)
        var brought: Token?
        let keepsFormer = formerToken(of: credential) != nil
        if let text {
            brought = Token(grantedAt: grantedAt, fingerprint: PlainSealer().fingerprint(of: Secret(text)))
            let isKnown = known.tokens.contains { $0.fingerprint == brought!.fingerprint && $0.grantedAt >= grantedAt }
            known.tokens.insert(brought!)
            known.texts[brought!] = text
            if isKnown {
                // If siwatch set aside the same token with a later date, it is set aside with this date, too.
                if known.token == brought, token != brought { known.setAside.insert(brought!) }
            } else if let token, known.token == token, !keepsFormer, !known.isAccepted(token) {
                // A token that comes late stays until the newer one is known to be good.
                known.former = (brought!, text)
            }
        }
        if known.token != token {
            known.held = nil
            if let token { known.displace(token, text: holdsToken(credential) ? known.texts[token] : nil, keepsFormer: keepsFormer) }
        }
        if let address {
            userFacts[credential.userID, default: UserFacts()].mails.append(Oracle.Mail(address, at: grantedAt, isFromEvent: false))
        }
        let isNews =
            known.grants.max() != newest || known.token != token || facts[credential] == nil || userFacts[credential.userID]?.mail != mail
        facts[credential] = known
        let hasFallenBack = fallBack(credential)
        if isNews || hasFallenBack { return .applied }
        return newest == grantedAt && (brought == nil || brought == token) ? .duplicate : .stale
    }

    mutating func close(_ row: Int64, _ outcome: GrantLogOutcome, _ reason: GrantRejection? = nil) -> Settled {
        grantRows[row] = nil
        toldRows[row]?.logged = [outcome.rawValue, reason?.rawValue ?? ""]
        return .grant(outcome, reason)
    }
}

extension ReferenceModel.Facts {
    /// Another token has replaced it.
    ///
    /// - Parameters:
    /// - text: nil if it was erased before.
    /// - keepsFormer: whether siwatch keeps an older token, which is surer than one that Apple has not accepted.
    fileprivate mutating func displace(_ token: Oracle.Token, text: String?, keepsFormer: Bool) {
        func newest(_ isValid: Bool) -> Timestamp? { answers.filter { $0.token == token && $0.isValid == isValid }.map(\.at).max() }
        let isGood = newest(true).map { good in newest(false).map { $0 <= good } ?? true } ?? false
        if !isGood, keepsFormer { return }
        former = (token, isGood || newest(false) == nil ? text : nil)
    }
}
