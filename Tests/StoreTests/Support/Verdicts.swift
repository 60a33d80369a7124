// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

extension CredentialStore {
    func maintain(at now: Timestamp) async throws {
        try await forget(at: now, naming: PlainSealer())
        try await sweep(at: now, patience: .zero)
    }
}

extension GrantVerdict {
    /// The daemon's verdict on a good grant: the token sealed, the rest unchanged.
    static func acceptance(of work: ClaimedGrant) -> GrantVerdict {
        guard let content = work.content else { return .rejected(.malformed) }
        let delivered = content.sealedToken.flatMap { try? PlainSealer().open(delivered: $0, for: content.credential).token }
        let token = (delivered ?? content.refreshToken).map { RefreshToken.sealed($0, for: content.credential, grantedAt: work.grantedAt) }
        return .accepted(Grant(grantedAt: work.grantedAt, token: token, address: content.address), content.credential)
    }
}

extension RefreshToken {
    static func sealed(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) -> RefreshToken {
        RefreshToken(
            key: Key(grantedAt: grantedAt, fingerprint: PlainSealer().fingerprint(of: token)),
            sealed: PlainSealer().seal(token, for: credential, grantedAt: grantedAt)
        )
    }
}

extension NotificationVerdict {
    static func event(
        _ kind: Event.Kind,
        _ user: String = "user",
        client: String = "app",
        at time: Timestamp = .start,
        type: String? = nil,
        tokenID: String = "jti"
    ) -> NotificationVerdict {
        .verified(
            VerifiedNotification(clientID: client, userID: user, tokenID: tokenID, type: type ?? kind.type, event: Event(kind, at: time))
        )
    }
}

extension Event.Kind {
    /// As Apple writes it.
    var type: String {
        switch self {
        case .consentRevoked: "consent-revoked"
        case .accountDeleted: "account-deleted"
        case .emailEnabled: "email-enabled"
        case .emailDisabled: "email-disabled"
        case .unknown: "something-new"
        }
    }
}

extension RefreshVerdict {
    /// A 200 that came in the moment of the question.
    static func valid(at time: Timestamp) -> RefreshVerdict { .valid(requestedAt: time, answeredAt: time) }

    /// A rejection that came in the moment of the question.
    static func rejected(at time: Timestamp, keyID: String = "KEY") -> RefreshVerdict {
        .rejected(PendingRejection(requestedAt: time, answeredAt: time, keyID: keyID), isProven: true)
    }

    static func failure(at time: Timestamp) -> RefreshVerdict { .failed(.unavailable, at: time) }
}

/// The kind of error with which a store fails.
func storeFailure(_ body: () async throws -> some Sendable) async -> String? {
    switch await #expect(throws: StoreError.self, performing: { _ = try await body() }) {
    case .busy: "busy"
    case .retry: "retry"
    case .unavailable: "unavailable"
    case .full: "full"
    case .refused: "refused"
    case .damaged: "damaged"
    case .readOnly: "readOnly"
    case .outcomeUnknown: "outcomeUnknown"
    case nil: nil
    }
}
