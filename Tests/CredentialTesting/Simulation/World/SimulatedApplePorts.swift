// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Apple's token endpoint for the simulated process. A request leaves, and the simulation decides when the answer comes.
struct SimulatedEndpoint: TokenEndpoint {
    let world: SimulatedWorld

    func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse {
        await withCheckedContinuation { world.arrive(.request(.refresh(token.reveal, credential, $0))) }
    }

    func exchange(_ code: Secret, redirectURI: String?, of clientID: String) async -> ExchangeResponse {
        await withCheckedContinuation { world.arrive(.request(.exchange(code.reveal, redirectURI: redirectURI, clientID: clientID, $0))) }
    }

    func revoke(_ token: Secret, of clientID: String) async -> RevokeResponse {
        await withCheckedContinuation { world.arrive(.request(.revoke(token.reveal, clientID: clientID, $0))) }
    }
}

/// Reads the simulation's content of an id_token: its number.
struct SimulatedIdentityVerifier: IdentityTokenVerifier {
    let world: SimulatedWorld

    var hasKeys: Bool { true }

    func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity {
        let (identity, isKnown): (ScriptedApple.Identity?, Bool) = world.with { state in
            let identity = Int(token.reveal).map { state.apple.identityTokens[$0] }
            return (identity, identity?.keyIsPublishedAt.map { $0 <= state.truth } ?? true)
        }
        guard let identity, identity.isGood else { throw .rejected(.badSignature, detail: "simulated") }
        guard isKnown else { throw .keyNotYetKnown(retryAt: now.advanced(by: .seconds(1))) }
        return VerifiedIdentity(userID: identity.userID, issuedAt: identity.issuedAt, address: identity.address.map { EmailAddress($0) })
    }
}

/// Reads the simulation's content of a queue row: the number of a post.
struct SimulatedVerifier: NotificationVerifier {
    /// How long a key may be missing before siwatch gives up its notifications.
    private static let patience = Duration.seconds(660)

    let world: SimulatedWorld
    let clientIDs: Set<String>

    func verify(_ payload: [UInt8], receivedAt: Timestamp) async throws(VerificationError) -> VerifiedNotification {
        let number = Int(String(decoding: payload, as: UTF8.self)) ?? -1
        let (post, isKnown, now): (ScriptedApple.Post, Bool, Timestamp) = world.with { state in
            let post = state.apple.posts[number]
            guard case .notice(let notice) = post else { return (post, true, state.now) }
            return (post, state.knownKeys.contains(notice.keyID), state.now)
        }
        guard case .notice(let notice) = post else { throw .rejected(.badSignature, detail: "simulated") }
        let clientID = notice.credential.clientID
        guard isKnown else {
            if receivedAt.duration(to: now) > Self.patience { throw .rejected(.unknownKey, detail: notice.keyID) }
            throw .keyNotYetKnown(retryAt: now.advanced(by: .seconds(65)))
        }
        if !clientIDs.contains(clientID) { throw .rejected(.wrongAudience, detail: clientID) }
        // siwatch judges Apple's date by the latest of the clocks that it knows.
        let latest = world.with { max(receivedAt, now, now.advanced(by: .zero - $0.knownOffset)) }
        if notice.at > latest.advanced(by: .seconds(300)) { throw .notYetIssued(retryAt: now.advanced(by: .seconds(60))) }
        return VerifiedNotification(
            clientID: clientID,
            userID: notice.credential.userID,
            tokenID: "jti\(number)",
            type: notice.kind.rawValue,
            event: Event(notice.event, at: notice.at)
        )
    }
}

extension ScriptedApple.Notice {
    fileprivate var event: Event.Kind {
        switch kind {
        case .consentRevoked: .consentRevoked
        case .accountDeleted: .accountDeleted
        case .emailEnabled: .emailEnabled(address.map { EmailAddress($0) })
        case .emailDisabled: .emailDisabled(address.map { EmailAddress($0) })
        case .unknown: .unknown
        }
    }
}
