// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Judges what Apple has issued for a code: whose sign-in it is, or why it is none.
struct IssueJudge: Sendable {
    let store: any WorkStore
    let verifier: any IdentityTokenVerifier
    let sealer: any TokenSealer
    let clock: WallClock
    let telemetry: Telemetry
    /// Whether the configuration allows to revoke for the app of a client.
    let mayRevoke: @Sendable (String) -> Bool
    let keyWaits = KeyWaits()
    /// By client, since the process started.
    private let records: NIOLockedValueBox<[String: CodeRecord]>

    init(
        store: any WorkStore,
        verifier: any IdentityTokenVerifier,
        sealer: any TokenSealer,
        clock: WallClock,
        telemetry: Telemetry,
        records: [String: CodeRecord] = [:],
        mayRevoke: @escaping @Sendable (String) -> Bool
    ) {
        self.records = NIOLockedValueBox(records)
        self.mayRevoke = mayRevoke
        self.store = store
        self.verifier = verifier
        self.sealer = sealer
        self.clock = clock
        self.telemetry = telemetry
    }

    /// How long an answer is kept whose id_token is signed with a key that is not known yet: keys are fetched once a minute then. The store
    /// is waited for within it, too.
    static let longestWaitForKey = Duration.seconds(75)

    /// - Parameters:
    ///   - requestedAt: by Apple's clock.
    ///   - issuedAt: the same of the answer.
    ///   - answeredAt: by ours.
    /// - Returns: nil where our own fault, or a stop, keeps a verdict from being: the row stays claimed.
    func verdict(
        on tokens: IssuedTokens,
        of work: ClaimedCode,
        _ content: ClaimedCode.Content,
        by endpoint: any TokenEndpoint,
        requestedAt: Timestamp,
        issuedAt: Timestamp,
        answeredAt: Timestamp
    ) async -> CodeVerdict? {
        let identity: VerifiedIdentity
        do {
            identity = try await verify(tokens.identityToken, for: content, at: issuedAt)
        } catch {
            if case .keyNotYetKnown = error {
                // A stop has cut the wait short. Else it cannot be told whose it is, for which the road to the keys may be to blame: nobody is
                // signed in, and nothing is ended.
                return Task.isCancelled ? nil : .rejected(.badIDToken, detail: error.text)
            }
            await discard(tokens, of: work.id, content, by: endpoint)
            return .rejected(.badIDToken, detail: error.text)
        }
        if let userID = content.userID, !userID.utf8.elementsEqual(identity.userID.utf8) {
            await discard(tokens, of: work.id, content, by: endpoint)
            return .rejected(.userMismatch)
        }
        records.withLockedValue { $0[content.clientID, default: CodeRecord()].append(isFailure: false) }
        let credential = CredentialID(clientID: content.clientID, userID: identity.userID)
        let grantedAt: Timestamp
        do {
            // `iat` is cut to the second. Within it, the answer came after the sign-in and before all that follows from it.
            let time = min(max(issuedAt, identity.issuedAt), identity.issuedAt.advanced(by: .milliseconds(999)))
            grantedAt = try await min(time, firstRequestToRevoke(credential, since: work.grantedAt, answeredAt: answeredAt) ?? time)
        } catch {
            telemetry.settlementFailed(.codes, error)
            return nil
        }
        do {
            let token = try tokens.refreshToken.map { try sealer.sealed($0, for: credential, grantedAt: grantedAt) }
            if token != nil { telemetry.sealed(1) }
            let grant = Grant(grantedAt: grantedAt, token: token, address: identity.address)
            return .exchanged(grant, credential, requestedAt: requestedAt, answeredAt: answeredAt)
        } catch {
            telemetry.sealingFailed(error)
            return nil
        }
    }

    /// Who deletes an account means the sign-in before that, however late Apple was asked for its token. A sign-in that is dated after the
    /// request would undo it, and the code is used up: so its answer waits for the store as it does for a key.
    private func firstRequestToRevoke(
        _ credential: CredentialID,
        since time: Timestamp,
        answeredAt: Timestamp
    ) async throws -> Timestamp? {
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

    /// Apple may have begun to sign with a new key: the code is used up, so its answer waits for the key to be published.
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

    /// Nobody will use what Apple has issued, so it is asked to end it. Best effort, and only where nobody else is harmed: Apple may end
    /// all that a user has granted to the app, and a sign-in that went wrong must not end one that did not.
    private func discard(_ tokens: IssuedTokens, of row: Int64, _ content: ClaimedCode.Content, by endpoint: any TokenEndpoint) async {
        let doubt = records.withLockedValue { records in
            records[content.clientID, default: CodeRecord()].append(isFailure: true)
            return records[content.clientID]?.doubt
        }
        guard let token = tokens.refreshToken, mayRevoke(content.clientID) else { return }
        // A mistake that strikes every sign-in would end every consent.
        if let doubt { return telemetry.codeTokenKept(content.clientID, because: TokenKept(doubt)) }
        // Whom Apple does not name, nobody knows.
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
        _ = await endpoint.revoke(token, of: content.clientID)
    }
}

/// Why what a bad code brought is not revoked.
enum TokenKept: String {
    /// The user is signed in otherwise.
    case signedIn = "signed_in"
    /// Whether the user is signed in otherwise could not be read.
    case unread
    /// Apple does not say whose it is.
    case nobodyNamed = "nobody_named"
    /// No code of the client has brought a sign-in since the start.
    case noneSucceeded = "none_succeeded"
    /// Too many of the client's last codes brought none.
    case tooManyFailed = "too_many_failed"

    init(_ doubt: CodeRecord.Doubt) {
        self =
            switch doubt {
            case .noneSucceeded: .noneSucceeded
            case .tooManyFailed: .tooManyFailed
            }
    }

    /// Whether somebody has to mend something.
    var isMistake: Bool {
        switch self {
        case .signedIn, .unread, .nobodyNamed: false
        case .noneSucceeded, .tooManyFailed: true
        }
    }
}

extension VerificationError {
    fileprivate var text: String {
        switch self {
        case .rejected(let reason, let detail): "\(reason.rawValue): \(detail)"
        case .keyNotYetKnown: RejectionReason.unknownKey.rawValue
        }
    }
}

extension TokenSealer {
    func sealed(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) throws -> RefreshToken {
        RefreshToken(
            key: RefreshToken.Key(grantedAt: grantedAt, fingerprint: fingerprint(of: token)),
            sealed: try seal(token, for: credential, grantedAt: grantedAt)
        )
    }
}
