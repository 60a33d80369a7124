// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Hummingbird
import NIOConcurrencyHelpers
import NIOCore

/// Takes the notifications that Apple posts.
///
/// It verifies each body in memory first. What Apple signed becomes a row, as a backend would insert it, whatever it says. What anybody
/// could have sent becomes none, except for a sample that the quarantine shows to the operator.
struct Intake: Sendable {
    let verifier: any NotificationVerifier
    let queue: AppendQueue
    let clock: WallClock
    /// The answer to a question of `siwatch doctor --intake`; nil for any other body.
    let testAnswer: @Sendable ([UInt8]) -> String?
    private let samples = Quota(upTo: 5)
    private let unknownKeys = Quota(upTo: 600)
    /// What Apple signed and siwatch cannot apply, such as an event of somebody else's app or an id_token: anybody can have one. If the
    /// configuration is at fault, Apple sends the rest again.
    private let unusable = Quota(upTo: 60)
    /// In bytes, of what may be none of Apple's news to siwatch, because anybody can send it. A notification has about one kilobyte.
    private static let longestDoubtful = 8192

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
            if error.isUnsigned { try admit() }
            if error.isKept, body.count > Self.longestDoubtful { throw Problem(.tooLarge) }
            switch error {
            case .keyNotYetKnown:
                guard unknownKeys.take() else { throw Problem(.tooManyRequests, "too many notifications name unknown keys") }
            // Apple signed it for one of our clients, and waits for no clock of ours.
            case .notYetIssued: break
            case .rejected(.unknownKey, _):
                guard unknownKeys.take() else { throw Problem(.forged, "its key is none of Apple's") }
            case .rejected(let reason, _) where reason.ring != nil:
                let problem = Problem(reason, body)
                if samples.take() { _ = try await queue.append(.notification(body)) }
                throw problem
            // Apple signed it. siwatch says in the quarantine what is wrong.
            case .rejected:
                guard unusable.take() else { throw Problem(.tooManyRequests, "too many signed bodies are no notification for siwatch") }
            }
        }
        _ = try await queue.append(.notification(body))
        return Response(status: .ok)
    }
}

extension VerificationError {
    /// Whether nothing shows yet that Apple signed the body.
    fileprivate var isUnsigned: Bool {
        switch self {
        case .keyNotYetKnown: true
        case .notYetIssued: false
        case .rejected(let reason, _): reason.ring != nil
        }
    }

    /// Whether each such body becomes a row, within its quota.
    fileprivate var isKept: Bool {
        switch self {
        case .keyNotYetKnown, .rejected(.unknownKey, _): true
        case .notYetIssued: false
        case .rejected(let reason, _): reason.ring == nil
        }
    }
}

extension Problem {
    /// - Parameter reason: of a body that Apple did not sign.
    fileprivate init(_ reason: RejectionReason, _ body: [UInt8]) {
        switch reason {
        case .badSignature, .wrongAlgorithm, .forbiddenHeader: self.init(.forged)
        default:
            // App Store Server Notifications V2 have the member, and are posted where somebody mixed up two URLs.
            let isOfAppStore = String(decoding: body.prefix(64), as: UTF8.self).contains("\"signedPayload\"")
            self =
                isOfAppStore
                ? Problem(.appStoreNotification, "register the URL for Sign in with Apple, not for the App Store")
                : Problem(.badRequest, "the body is no notification of Sign in with Apple")
        }
    }
}

/// How much of something is taken in a minute.
private final class Quota: Sendable {
    private let limit: Int
    private let state = NIOLockedValueBox((count: 0, since: ContinuousClock.now))

    init(upTo limit: Int) {
        self.limit = limit
    }

    func take() -> Bool {
        state.withLockedValue { state in
            let now = ContinuousClock.now
            if now - state.since > .minutes(1) { state = (0, now) }
            state.count += 1
            return state.count <= limit
        }
    }
}
