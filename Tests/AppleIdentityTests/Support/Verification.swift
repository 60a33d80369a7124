// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import NIOConcurrencyHelpers

@testable import AppleIdentity

/// A verifier that knows Apple's key, at a moment shortly after its tokens were issued.
struct Verification {
    let clock = TestClock(now: AppleFixture.now)
    let transport = ScriptedTransport(body: AppleFixture.keySet(AppleFixture.apple.jwk()))
    let store = MemoryKeyStore()
    let news = SigningKeyNews()
    let keys: SigningKeys
    let verifier: AppleNotificationVerifier

    static let policy = NotificationPolicy(
        issuers: ["https://appleid.apple.com"],
        clientIDs: [AppleFixture.client, "com.example.web"],
        clockSkew: .seconds(300)
    )

    /// - Parameter fetches: whether it fetches the keys first.
    init(fetches: Bool = true) async throws {
        keys = SigningKeys(transport, store, clock, news)
        verifier = AppleNotificationVerifier(keys: keys, policy: Self.policy, clock: clock.wallClock)
        if fetches { _ = await keys.refreshIfDue() }
    }

    /// A verifier that knows what Apple's clock says.
    func verifier(appleTime: Timestamp) -> AppleNotificationVerifier {
        AppleNotificationVerifier(keys: keys, policy: Self.policy, clock: clock.wallClock, appleTime: { appleTime })
    }

    /// Verifies a notification, received just now by default.
    func verify(_ payload: [UInt8], receivedAt: Timestamp? = nil) async throws(VerificationError) -> VerifiedNotification {
        try await verifier.verify(payload, receivedAt: receivedAt ?? clock.now)
    }

    func verify(_ payload: String) async throws(VerificationError) -> VerifiedNotification {
        try await verify(Array(payload.utf8))
    }
}

extension SigningKeys {
    /// - Parameter isTrusted: whether the clock may be trusted.
    convenience init(
        _ transport: ScriptedTransport,
        _ store: MemoryKeyStore,
        _ clock: TestClock,
        _ news: SigningKeyNews = SigningKeyNews(),
        isTrusted: Bool = true
    ) {
        self.init(
            url: "https://appleid.apple.com/auth/keys",
            transport: transport,
            store: store,
            voucher: PlainSealer(),
            clock: clock.wallClock,
            trustedTime: { isTrusted ? clock.now : nil },
            tell: news.note
        )
    }
}

/// What was told of the keys, a line for each change.
final class SigningKeyNews: Sendable {
    private let told = NIOLockedValueBox<[String]>([])

    func note(_ change: SigningKeyChange, _ keyIDs: [String]) {
        told.withLockedValue { $0.append("\(change) \(keyIDs.joined(separator: " "))") }
    }

    func take() -> [String] {
        told.withLockedValue { told in
            defer { told = [] }
            return told
        }
    }
}
