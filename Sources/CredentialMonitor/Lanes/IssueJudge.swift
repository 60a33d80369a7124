// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Logging
import NIOConcurrencyHelpers

/// Judges what Apple issued for a code: whose sign-in it is, or why it is no sign-in.
struct IssueJudge: LanePart {
    let context: LaneContext
    private let verifier: any IdentityTokenVerifier
    let keyWaits = KeyWaits()
    /// By client, since the process started.
    private let records: NIOLockedValueBox<[String: CodeRecord]>
    /// By app, when siwatch asked Apple to revoke what bad codes had brought.
    private let discards = NIOLockedValueBox<[String: [Timestamp]]>([:])

    init(_ verifier: any IdentityTokenVerifier, _ context: LaneContext, records: [String: CodeRecord]) {
        self.verifier = verifier
        self.context = context
        self.records = NIOLockedValueBox(records)
    }

    /// How long an answer waits for an unknown signing key, which is fetched once a minute, and for the store.
    static let longestWaitForKey = Duration.seconds(75)

    /// - Returns: nil if a fault of our own or a stop prevents a verdict. The row stays claimed.
    func verdict(
        on tokens: IssuedTokens,
        in answer: Asked<ExchangeNews>,
        of work: ClaimedCode,
        _ content: ClaimedCode.Content,
        by app: AppAtWork
    ) async -> CodeVerdict? {
        let issuedAt = answer.response.answeredAt(answer.answeredAt)
        let identity: VerifiedIdentity
        do {
            identity = try await verify(tokens.identityToken, for: content, at: issuedAt)
        } catch {
            if case .keyNotYetKnown = error {
                // A stop cut the wait short. Otherwise nobody knows whose token it is, perhaps because keys cannot be fetched. So nobody is
                // signed in, and nothing is revoked.
                return Task.isCancelled ? nil : .rejected(.badIDToken, detail: error.text)
            }
            await discard(tokens, of: work.id, content, by: app)
            return .rejected(.badIDToken, detail: error.text)
        }
        if let userID = content.userID, !userID.utf8.elementsEqual(identity.userID.utf8) {
            await discard(tokens, of: work.id, content, by: app)
            return .rejected(.userMismatch)
        }
        records.withLockedValue { $0[content.clientID, default: CodeRecord()].append(isFailure: false) }
        let credential = CredentialID(clientID: content.clientID, userID: identity.userID)
        let grantedAt: Timestamp
        do {
            // `iat` is cut to the second. Within it, the answer came after the sign-in and before everything that follows from it.
            let time = min(max(issuedAt, identity.issuedAt), identity.issuedAt.advanced(by: .milliseconds(999)))
            grantedAt = try await min(time, firstRequestToRevoke(credential, since: work.grantedAt, answeredAt: answer.answeredAt) ?? time)
        } catch {
            telemetry.settlementFailed(.codes, error)
            return nil
        }
        do {
            let token = try tokens.refreshToken.map { try sealer.sealed($0, for: credential, grantedAt: grantedAt) }
            if token != nil { telemetry.count(.seals) }
            let grant = Grant(grantedAt: grantedAt, token: token, address: identity.address)
            let (requestedAt, answeredAt) = (answer.requestedAt, answer.answeredAt)
            return .exchanged(grant, credential, requestedAt: requestedAt, answeredAt: answeredAt, realUserStatus: identity.realUserStatus)
        } catch {
            telemetry.log(.sealingFailed, ["error": "\(error)"])
            return nil
        }
    }

    /// When the app first asked to revoke, since `time`. A user who deletes an account means the sign-in before that, however late Apple
    /// was asked. A sign-in dated after the request would undo it. The code is used up, so its answer waits for the store as for a key.
    private func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp, answeredAt: Timestamp) async throws -> Timestamp? {
        var waited = min(max(answeredAt.duration(to: clock.now), .zero), Self.longestWaitForKey)
        while true {
            do {
                return try await store.firstRequestToRevoke(credential, since: time)
            } catch {
                guard waited < Self.longestWaitForKey, !Task.isCancelled else { throw error }
                waited += .seconds(1)
                try? await clock.sleep(for: .seconds(1))
            }
        }
    }

    /// Verifies an id_token. Waits for an unknown key, because Apple may sign before it publishes, and the code is used up.
    private func verify(
        _ token: Secret?,
        for content: ClaimedCode.Content,
        at issuedAt: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity {
        guard let token else { throw .rejected(.missingClaim, detail: "no id_token") }
        var waited = Duration.zero
        defer { if waited > .zero { keyWaits.end() } }
        while true {
            do throws(VerificationError) {
                return try await verifier.verify(token, issuedTo: content.clientID, nonce: content.nonce, at: issuedAt)
            } catch {
                guard case .keyNotYetKnown = error, waited < Self.longestWaitForKey, !Task.isCancelled else { throw error }
                if waited == .zero { keyWaits.begin() }
                waited += .seconds(1)
                try? await clock.sleep(for: .seconds(1))
            }
        }
    }

    /// Asks Apple to revoke what it issued, because nobody will use it. Best effort, and only if it harms nobody else: Apple may end
    /// everything that the user granted to the app, and a failed sign-in must not end a good one.
    private func discard(_ tokens: IssuedTokens, of row: Int64, _ content: ClaimedCode.Content, by app: AppAtWork) async {
        let doubt = records.withLockedValue { records in
            records[content.clientID, default: CodeRecord()].append(isFailure: true)
            return records[content.clientID]?.doubt
        }
        guard let token = tokens.refreshToken, app.mayRevoke else { return }
        // If a mistake strikes every sign-in, revoking would end every consent.
        if let doubt { return telemetry.codeTokenKept(content.clientID, because: doubt) }
        // If Apple names no user, nobody knows whose consent would end.
        guard let namedUserID = tokens.namedUserID else { return telemetry.codeTokenKept(content.clientID, because: .nobodyNamed) }
        for userID in Set([namedUserID, content.userID].compactMap(\.self)) {
            let credential = CredentialID(clientID: content.clientID, userID: userID)
            do {
                let isSignedIn = try await store.isSignedIn(credential, besides: row)
                if isSignedIn { return telemetry.codeTokenKept(content.clientID, because: .signedIn) }
            } catch {
                return telemetry.codeTokenKept(content.clientID, because: .unread)
            }
        }
        guard mayDiscard(of: app.name) else { return telemetry.codeTokenKept(content.clientID, because: .limitReached) }
        _ = await app.endpoint.revoke(token, of: content.clientID)
    }

    /// The revocation limit judges rows, and these tokens are in none. So an hour of this process has a bound of its own.
    private func mayDiscard(of app: String) -> Bool {
        let now = clock.now
        return discards.withLockedValue { discards in
            let recent = discards[app, default: []].filter { $0 > now.advanced(by: .seconds(-3600)) }
            let isAllowed = recent.count < context.revocationLimit.maxPerHour
            discards[app] = isAllowed ? recent + [now] : recent
            return isAllowed
        }
    }
}

extension VerificationError {
    fileprivate var text: String {
        switch self {
        case .rejected(let reason, let detail): "\(reason.rawValue): \(detail)"
        case .keyNotYetKnown: RejectionReason.unknownKey.rawValue
        case .notYetIssued: RejectionReason.issuedInFuture.rawValue
        }
    }
}

extension TokenSealer {
    func sealed(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) throws -> RefreshToken {
        let key = RefreshToken.Key(grantedAt: grantedAt, fingerprint: fingerprint(of: token))
        return RefreshToken(key: key, sealed: try seal(token, for: credential, grantedAt: grantedAt))
    }
}

/// How many of Apple's answers wait for a signing key, and the extra hands for those: they must not keep a user's code from being sent.
final class KeyWaits: Sendable {
    private let state = NIOLockedValueBox((waiting: 0, hands: 0))

    /// Answers beyond this number hold up other codes. An answer is a few kilobytes.
    static let most = 4096

    var hands: Int { state.withLockedValue(\.hands) }

    func begin() {
        state.withLockedValue { state in
            state.waiting += 1
            state.hands = max(state.hands, min(state.waiting, Self.most))
        }
    }

    func end() { state.withLockedValue { $0.waiting -= 1 } }

    /// Takes back extra hands without a waiting answer. Only a claim does this, so that the number cannot shrink between the count of free
    /// hands and the claim: the claim would believe that nothing is under way.
    func takeBack() { state.withLockedValue { $0.hands = min($0.waiting, Self.most) } }
}
