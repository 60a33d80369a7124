// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
internal import NIOConcurrencyHelpers
internal import ServiceLifecycle
internal import Synchronization

/// The only place where state changes. Whoever submits while a commit runs goes into the next one, so that a batch costs one fsync.
///
/// It stands before the loops in the service group, so it stops after them: what they submit on their way out is still written.
package final class SettlementWriter: Service {
    private let store: any WorkStore
    private let rules: SettlementRules
    private let clock: WallClock
    private let telemetry: Telemetry
    private let onReplenished: @Sendable (Set<String>) -> Void
    /// As of the last commit.
    package let breakers: Breakers
    private let state = NIOLockedValueBox(State())
    private let troubled = Atomic<Bool>(false)
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    private struct State {
        var waiting: [Submission] = []
        var isClosed = false
        /// When the store was asked to commit what it has not answered yet.
        var askedAt: ContinuousClock.Instant?
    }

    /// Longer than any commit takes on a disk that works.
    private static let longestCommit = Duration.seconds(30)

    private struct Submission {
        var resolutions: [Resolution]
        var done: CheckedContinuation<Void, any Error>
    }

    /// Settlements per commit, at most: a longer transaction gains nothing and keeps others waiting.
    private static let largestBatch = 4096
    /// Waits between tries to commit; the last one repeats.
    private static let retries: [Duration] = [.milliseconds(50), .milliseconds(200), .seconds(1), .seconds(2), .seconds(5)]
    /// Tries before the store counts as broken and the process ends, so that it starts afresh. A full disk is waited for.
    private static let mostTries = 12

    package struct Closed: Error {}

    /// - Parameter onReplenished: hears of apps of which new tokens were committed.
    package init(
        store: any WorkStore,
        rules: SettlementRules,
        clock: WallClock,
        telemetry: Telemetry,
        onReplenished: @escaping @Sendable (Set<String>) -> Void = { _ in }
    ) {
        self.store = store
        self.onReplenished = onReplenished
        self.rules = rules
        self.clock = clock
        self.telemetry = telemetry
        breakers = Breakers(rules, telemetry: telemetry)
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Returns after the commit.
    ///
    /// - Throws: where nothing of this submission was written, as far as is known; its claims then run out.
    package func submit(_ resolutions: [Resolution]) async throws {
        guard !resolutions.isEmpty else { return }
        try await withCheckedThrowingContinuation { done in
            let isClosed = state.withLockedValue { state in
                if !state.isClosed { state.waiting.append(Submission(resolutions: resolutions, done: done)) }
                return state.isClosed
            }
            if isClosed { done.resume(throwing: Closed()) } else { signal.yield() }
        }
    }

    /// Whether the last try to commit failed. Nobody should claim more then.
    package var isInTrouble: Bool { troubled.load(ordering: .relaxed) }

    /// Whether the store has not answered for so long that it never may.
    package var isHung: Bool {
        state.withLockedValue(\.askedAt).map { ContinuousClock.now - $0 > Self.longestCommit } ?? false
    }

    /// Submissions that wait for the next commit.
    package var waiting: Int { state.withLockedValue { $0.waiting.count } }

    package func run() async throws {
        do {
            // The signals end with graceful shutdown; what waits then is written below.
            for await _ in signals.cancelOnGracefulShutdown() {
                while let batch = next() { try await commit(batch) }
            }
            while let batch = next() { try await commit(batch) }
            close(Closed())
        } catch {
            close(error)
            throw error
        }
    }

    private func next() -> [Submission]? {
        state.withLockedValue { state in
            var size = 0
            let batch = Array(
                state.waiting.prefix { submission in
                    defer { size += submission.resolutions.count }
                    return size == 0 || size + submission.resolutions.count <= Self.largestBatch
                }
            )
            state.waiting.removeFirst(batch.count)
            return batch.isEmpty ? nil : batch
        }
    }

    private func close(_ error: any Error) {
        let left = state.withLockedValue { state in
            state.isClosed = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for submission in left { submission.done.resume(throwing: error) }
    }

    private func commit(_ batch: [Submission]) async throws {
        do {
            try await settle(batch.flatMap(\.resolutions))
            for submission in batch { submission.done.resume() }
        } catch {
            for submission in batch { submission.done.resume(throwing: error) }
            throw error
        }
    }

    /// Judges and commits at once. For `run`, and for whoever takes its place: there is one writer.
    package func settle(_ resolutions: [Resolution]) async throws {
        try await settle(resolutions.map(judge))
    }

    /// Settles all, again and again while the store is in trouble.
    private func settle(_ judged: [Judged]) async throws {
        for attempt in 0... {
            do {
                let start = ContinuousClock.now
                state.withLockedValue { $0.askedAt = start }
                defer { state.withLockedValue { $0.askedAt = nil } }
                let batch = try await store.settle(judged.map(\.settlement), under: rules, at: clock.now)
                troubled.store(false, ordering: .relaxed)
                breakers.note(batch.breakers)
                if !batch.replenished.isEmpty { onReplenished(batch.replenished) }
                telemetry.settled(judged, batch, in: ContinuousClock.now - start, at: clock.now)
                return
            } catch StoreError.refused(let reason) {
                // The database works: it says no. Claims may go on.
                troubled.store(false, ordering: .relaxed)
                guard judged.count > 1 else { return telemetry.settlementRefused(reason) }
                // One of them breaks a rule of the schema. The others must not wait for it, and it comes back alone.
                for one in judged { try await settle([one]) }
                return
            } catch let error as StoreError {
                troubled.store(true, ordering: .relaxed)
                telemetry.storeFailed(error)
                if case .full = error {} else if attempt >= Self.mostTries { throw error }
                try await clock.sleep(for: Self.retries[min(attempt, Self.retries.count - 1)])
            }
        }
    }

    private func judge(_ resolution: Resolution) -> Judged {
        switch resolution {
        case .notification(let work, let verdict): Judged(settlement: .notification(work, verdict))
        case .grant(let work, let verdict): Judged(settlement: .grant(work, verdict))
        case .refresh(let work, let attempt): judge(work, attempt)
        case .admission(let work, let rejection): Judged(settlement: .admission(work, rejection))
        }
    }

    private func judge(_ work: DueCredential, _ attempt: RefreshAttempt) -> Judged {
        let policy = rules.policy
        let identity = attempt.response.identity
        let nextCheck = policy.nextCheck(afterAnswerAt: attempt.answeredAt, of: work.id)

        func answered(
            _ label: RefreshLabel,
            fact: RefreshAnswer? = nil,
            finding: RejectionBreaker.Finding? = nil,
            rejection: PendingRejection? = nil,
            isOfAnotherUser: Bool = false
        ) -> Judged {
            let verdict = RefreshVerdict(
                fact: fact,
                answeredAt: attempt.answeredAt,
                nextCheck: nextCheck,
                finding: finding,
                rejection: rejection,
                isOfAnotherUser: isOfAnotherUser
            )
            return Judged(settlement: .refresh(work, verdict), refresh: (attempt.app, label))
        }

        func failed(_ label: RefreshLabel, retryAfter: Duration? = nil, finding: RejectionBreaker.Finding? = nil) -> Judged {
            let retry = policy.retry(
                afterFailures: work.failures + 1,
                at: attempt.answeredAt,
                retryAfter: retryAfter,
                of: work.id
            )
            return Judged(
                settlement: .refresh(work, RefreshVerdict(fact: nil, answeredAt: nil, nextCheck: retry, finding: finding)),
                refresh: (attempt.app, label)
            )
        }

        switch attempt.response.outcome {
        case .valid:
            breakers.record(isValid: true, of: work, by: identity, at: attempt.answeredAt)
            let fact = RefreshAnswer(.valid, token: work.token, requestedAt: attempt.requestedAt)
            return answered(.valid, fact: fact, finding: .valid)
        case .rejected:
            breakers.record(isValid: false, of: work, by: identity, at: attempt.answeredAt)
            // Whether it waits or is forgotten is for the breaker to say, in the transaction.
            let rejection = PendingRejection(
                requestedAt: attempt.requestedAt,
                answeredAt: attempt.answeredAt,
                keyID: identity.keyID
            )
            let label = breakers.isProven(identity, at: attempt.answeredAt) ? RefreshLabel.rejected : .held
            return answered(label, finding: .rejected, rejection: rejection)
        case .ambiguous: return answered(.ambiguous)
        case .anotherUser: return answered(.ambiguous, isOfAnotherUser: true)
        case .misconfigured: return failed(.misconfigured, finding: .blamed)
        case .throttled(let retryAfter): return failed(.throttled, retryAfter: retryAfter)
        case .unavailable(_, let retryAfter): return failed(.unavailable, retryAfter: retryAfter)
        }
    }
}

/// A settlement, and for a refresh what to count it as.
struct Judged: Sendable {
    var settlement: Settlement
    var refresh: (app: String, label: RefreshLabel)?
}

/// The outcomes of a refresh as metrics name them.
package enum RefreshLabel: String, Sendable, CaseIterable {
    case valid, rejected, held, ambiguous, misconfigured, throttled, unavailable
}
