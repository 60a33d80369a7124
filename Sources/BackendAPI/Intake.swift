// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Hummingbird
import NIOConcurrencyHelpers
import NIOCore

/// Verifies what Apple posts. What Apple signed becomes a row, as a backend would insert it, whatever it says. What anybody could have sent
/// becomes none, except for a sample that the quarantine shows to the operator.
struct Intake: Sendable {
    let verifier: any NotificationVerifier
    let queue: AppendQueue
    let clock: WallClock
    /// The answer to a question of `siwatch doctor --intake`; nil for any other body.
    let testAnswer: @Sendable ([UInt8]) -> String?
    private let samples = Quota(upTo: 5)
    private let unknownKeys = Quota(upTo: 600)
    /// What Apple signed and siwatch cannot apply, such as an event of somebody else's app or an id_token: anybody can have one. If the
    /// configuration is at fault, Apple may send the rest again, or not: its staff say both.
    private let unusable = Quota(upTo: 60)

    init(
        _ verifier: any NotificationVerifier,
        _ queue: AppendQueue,
        clock: WallClock,
        testAnswer: @escaping @Sendable ([UInt8]) -> String?
    ) {
        self.verifier = verifier
        self.queue = queue
        self.clock = clock
        self.testAnswer = testAnswer
    }

    /// - Parameter admit: called before anything is done about a body that Apple did not sign.
    func take(_ request: Request, unsigned admit: () throws(Problem) -> Void) async throws(Problem) -> Response {
        let body = try await request.bytes()
        guard !body.isEmpty else { throw Problem(.badRequest, "the body is empty") }
        if let answer = testAnswer(body) { return Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: answer))) }
        do throws(VerificationError) {
            _ = try await verifier.verify(body, receivedAt: clock.now)
        } catch {
            switch error {
            // Apple signed it for one of our clients, and waits for no clock of ours.
            case .notYetIssued: break
            case .keyNotYetKnown:
                try admit()
                try unknownKeys.take(body, else: Problem(.tooManyRequests, "too many notifications name unknown keys"))
            case .rejected(.unknownKey, _):
                try admit()
                try unknownKeys.take(body, else: Problem(.forged, "its key is none of Apple's"))
            case .rejected(let reason, _) where reason.ring != nil:
                try admit()
                if samples.take() { _ = try await queue.append(.notification(body)) }
                throw Problem(reason, body)
            // Apple signed it. siwatch says in the quarantine what is wrong.
            case .rejected:
                try unusable.take(body, else: Problem(.tooManyRequests, "too many signed bodies are no notification for siwatch"))
            }
        }
        _ = try await queue.append(.notification(body))
        return Response(status: .ok)
    }
}

extension Problem {
    /// - Parameter reason: of a body that Apple did not sign.
    fileprivate init(_ reason: RejectionReason, _ body: [UInt8]) {
        switch reason {
        case .badSignature, .wrongAlgorithm, .forbiddenHeader: self.init(.forged)
        // App Store Server Notifications V2 have the member, and are posted where somebody mixed up two URLs.
        case _ where String(decoding: body.prefix(64), as: UTF8.self).contains("\"signedPayload\""):
            self.init(.appStoreNotification, "register the URL for Sign in with Apple, not for the App Store")
        default: self.init(.badRequest, "the body is no notification of Sign in with Apple")
        }
    }
}

/// How much of something is taken in a minute.
private final class Quota: Sendable {
    private let limit: Int
    private let state = NIOLockedValueBox((count: 0, since: ContinuousClock.now))

    init(upTo limit: Int) { self.limit = limit }

    func take() -> Bool {
        state.withLockedValue { state in
            let now = ContinuousClock.now
            if now - state.since > .minutes(1) { state = (0, now) }
            state.count += 1
            return state.count <= limit
        }
    }

    /// Takes a body that may be none of Apple's news to siwatch, because anybody can send it. A notification has about one kilobyte.
    func take(_ body: [UInt8], else problem: Problem) throws(Problem) {
        guard body.count <= 8192 else { throw Problem(.tooLarge) }
        guard take() else { throw problem }
    }
}
