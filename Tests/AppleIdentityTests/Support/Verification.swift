// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
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

    init(fetches: Bool = true) async throws {
        keys = SigningKeys(transport, store, clock, news)
        verifier = AppleNotificationVerifier(keys: keys, policy: Self.policy, clock: clock.wallClock)
        if fetches { _ = await keys.refreshIfDue() }
    }

    func verifier(appleTime: Timestamp) -> AppleNotificationVerifier {
        AppleNotificationVerifier(keys: keys, policy: Self.policy, clock: clock.wallClock, appleTime: { appleTime })
    }

    func verify(_ payload: [UInt8], receivedAt: Timestamp? = nil) async throws(VerificationError) -> VerifiedNotification {
        try await verifier.verify(payload, receivedAt: receivedAt ?? clock.now)
    }

    func verify(_ payload: String) async throws(VerificationError) -> VerifiedNotification { try await verify(Array(payload.utf8)) }
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

final class MemoryKeyStore: SigningKeyStore {
    struct Full: Error {}

    private let records: NIOLockedValueBox<[String: SigningKeyRecord]>
    private let isFull: Bool

    init(_ records: [SigningKeyRecord] = [], isFull: Bool = false) {
        self.records = NIOLockedValueBox(Dictionary(uniqueKeysWithValues: records.map { ($0.keyID, $0) }))
        self.isFull = isFull
    }

    var all: [SigningKeyRecord] { records.withLockedValue { $0.values.sorted { $0.keyID < $1.keyID } } }
    func signingKeys() async throws -> [SigningKeyRecord] { all }

    func remember(_ keys: [SigningKeyRecord], forgetting others: [SigningKeyRecord]) async throws {
        guard !isFull else { throw Full() }
        records.withLockedValue { records in
            for key in others where records[key.keyID]?.proof == key.proof { records[key.keyID] = nil }
            for key in keys { records[key.keyID] = key }
        }
    }
}

/// The bytes with one to four of them changed, removed, added or doubled.
func mutated(_ bytes: [UInt8], using generator: inout some RandomNumberGenerator) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
        let place = bytes.indices.randomElement(using: &generator)!
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        case 2: bytes.remove(at: place)
        case 3: bytes.insert(bytes.randomElement(using: &generator)!, at: place)
        default: bytes.insert(contentsOf: bytes[place..<min(place + 8, bytes.count)], at: place)
        }
    }
    return bytes
}

/// Answers each request by a closure, and records the requests.
final class ScriptedTransport: AppleTransport {
    typealias Answer = @Sendable (AppleRequest) async -> Result<TransportResponse, TransportFailure>

    private let answer: NIOLockedValueBox<Answer>
    private let sent = NIOLockedValueBox<[AppleRequest]>([])

    init(_ answer: @escaping Answer) { self.answer = NIOLockedValueBox(answer) }

    convenience init(status: Int = 200, body: [UInt8], retryAfter: String? = nil) {
        self.init { _ in .success(TransportResponse(status: status, body: body, retryAfter: retryAfter)) }
    }

    convenience init(status: Int, _ body: String) { self.init(status: status, body: Array(body.utf8)) }

    var requests: [AppleRequest] { sent.withLockedValue { $0 } }
    func now(_ answer: @escaping Answer) { self.answer.withLockedValue { $0 = answer } }

    func now(publishes jwks: String...) {
        let body = Array(#"{"keys":[\#(jwks.joined(separator: ","))]}"#.utf8)
        now { _ in .success(TransportResponse(status: 200, body: body)) }
    }

    func send(_ request: AppleRequest) async throws(TransportFailure) -> TransportResponse {
        sent.withLockedValue { $0.append(request) }
        return try await answer.withLockedValue { $0 }(request).get()
    }
}
