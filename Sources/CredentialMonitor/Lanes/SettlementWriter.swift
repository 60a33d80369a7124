// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers
import ServiceLifecycle

/// The only place where state changes. Submissions during a commit go into the next one, so that a batch costs one fsync. It stands before
/// the loops in the service group, so it stops after them and still writes their last submissions.
package final class SettlementWriter: Service {
    let store: any WorkStore
    let rules: SettlementRules
    let clock: WallClock
    let signInRush = SignInRush()
    let telemetry: Telemetry
    private let onSettled: @Sendable (SettlementChanges) -> Void
    /// As of the last commit.
    package let breakers: Breakers
    package let intake: GrantIntake
    private let state = NIOLockedValueBox(State())
    private let storeTrouble = NIOLockedValueBox<StoreError?>(nil)
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    private struct State {
        var waiting: [Submission] = []
        var isClosed = false
        var committedAt = ContinuousClock.now
        /// When the store was asked for a commit. Nil after its answer.
        var askedAt: ContinuousClock.Instant?
    }

    /// Longer than any commit takes on a working disk.
    private var longestCommit: Duration { store.longestSilence + .seconds(20) }

    private struct Submission {
        var settlements: [Settlement]
        var urgency = Urgency.waiting
        var done: @Sendable (Result<Void, any Error>) -> Void
    }

    private enum Urgency {
        /// Goes before waiting submissions, in a commit of its own.
        case urgent
        case waiting
        case patient
    }

    /// The most settlements in a commit. A longer transaction gains nothing and keeps others waiting.
    private var largestBatch: Int { signInRush.isOn ? 256 : 4096 }
    private static let gap = Duration.milliseconds(10)
    /// A little longer than a process that waits for SQLite's lock sleeps between two tries.
    private static let rest = Duration.milliseconds(110)
    /// Lanes with a reserve claim no more while this many submissions wait.
    static let mostWaiting = 1024
    /// Between two commits of submissions that nobody waits for.
    private static let patience = Duration.milliseconds(50)
    /// How often the writer looks meanwhile whether somebody waits.
    private static let look = Duration.milliseconds(2)
    /// Waits between tries to commit. The last one repeats.
    private static let retries: [Duration] = [.milliseconds(50), .milliseconds(200), .seconds(1), .seconds(2), .seconds(5)]
    /// Tries before the store counts as broken and the process ends, to start afresh. A full disk is waited for.
    private static let mostTries = 12

    package struct Closed: Error {}

    package init(
        store: any WorkStore,
        rules: SettlementRules,
        clock: WallClock,
        telemetry: Telemetry,
        onSettled: @escaping @Sendable (SettlementChanges) -> Void = { _ in }
    ) {
        self.store = store
        self.rules = rules
        self.clock = clock
        self.telemetry = telemetry
        self.onSettled = onSettled
        breakers = Breakers(rules, telemetry: telemetry)
        intake = GrantIntake(pollInterval: rules.pollInterval, since: rules.startedAt)
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Submits settlements, and returns after their commit; urgent ones have a commit of their own, before waiting submissions. If it
    /// throws, nothing was written, as far as is known, and the claims run out.
    package func submit(_ settlements: [Settlement], isUrgent: Bool = false) async throws {
        guard !settlements.isEmpty else { return }
        try await withCheckedThrowingContinuation { done in
            submit(Submission(settlements: settlements, urgency: isUrgent ? .urgent : .waiting) { done.resume(with: $0) })
        }
    }

    /// Submits settlements that nobody waits for, and returns at once. Under load they wait, so that a commit holds more. If nothing of
    /// them was written, as far as is known, the log says so, and the claims run out.
    func submitPatiently(_ settlements: [Settlement], of lane: Lane) {
        guard !settlements.isEmpty else { return }
        submit(
            Submission(settlements: settlements, urgency: .patient) { [telemetry] result in
                if case .failure(let error) = result { telemetry.settlementFailed(lane, error) }
            }
        )
    }

    /// Returns once all earlier submissions are committed or have failed.
    func drain() async {
        try? await withCheckedThrowingContinuation { done in submit(Submission(settlements: []) { done.resume(with: $0) }) }
    }

    private func submit(_ submission: Submission) {
        let isClosed = state.withLockedValue { state in
            if !state.isClosed { state.waiting.append(submission) }
            return state.isClosed
        }
        if isClosed { submission.done(.failure(Closed())) } else { signal.yield() }
    }

    /// Why the last try to commit failed; nil if it did not fail. In trouble nothing must be claimed.
    package var trouble: StoreError? { storeTrouble.withLockedValue { $0 } }

    /// Whether the store has not answered for so long that it may never answer.
    var isHung: Bool {
        state.withLockedValue(\.askedAt).map { ContinuousClock.now - $0 > longestCommit } ?? false
    }

    package var waiting: Int { state.withLockedValue { $0.waiting.count } }

    package func run() async throws {
        do {
            var burst = CommitBurst(at: clock.now)
            // The signals end with graceful shutdown. Submissions that still wait are written below.
            for await _ in signals.cancelOnGracefulShutdown() {
                while let batch = await gather() {
                    burst.begin(at: clock.now)
                    let isLong = burst.isLong(at: try await commit(batch))
                    if signInRush.isOn || isLong, batch[0].urgency != .urgent { await giveWay(for: signInRush.isOn ? Self.gap : Self.rest) }
                }
            }
            while let batch = next() { try await commit(batch) }
            close(Closed())
        } catch {
            close(error)
            throw error
        }
    }

    /// Lets backends have their turn at the store between two commits: often while people sign in, otherwise now and then.
    private func giveWay(for gap: Duration) async {
        guard store.holdsBackendsUp, state.withLockedValue({ !$0.waiting.contains { $0.urgency == .urgent } }) else { return }
        try? await clock.sleep(for: gap)
    }

    /// The next batch. Soon after a commit, submissions that nobody waits for wait for company, until one comes that somebody waits for.
    private func gather() async -> [Submission]? {
        while !signInRush.isOn, mayWait { try? await Task.sleep(for: Self.look) }
        return next()
    }

    private var mayWait: Bool {
        state.withLockedValue { state in
            !state.waiting.isEmpty && state.waiting.allSatisfy { $0.urgency == .patient } && .now < state.committedAt + Self.patience
        }
    }

    private func next() -> [Submission]? {
        state.withLockedValue { state in
            let urgent = state.waiting.filter { $0.urgency == .urgent }
            if !urgent.isEmpty {
                state.waiting.removeAll { $0.urgency == .urgent }
                return urgent
            }
            var size = 0
            let batch = Array(
                state.waiting.prefix { submission in
                    defer { size += submission.settlements.count }
                    return size == 0 || size + submission.settlements.count <= largestBatch
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
        for submission in left { submission.done(.failure(error)) }
    }

    /// - Returns: when the commit ended. Submitters hear of the commit after that.
    @discardableResult
    private func commit(_ batch: [Submission]) async throws -> Timestamp {
        do {
            let settlements = batch.flatMap(\.settlements)
            if !settlements.isEmpty { try await settle(settlements) }
            state.withLockedValue { $0.committedAt = .now }
            let end = clock.now
            for submission in batch { submission.done(.success(())) }
            return end
        } catch {
            for submission in batch { submission.done(.failure(error)) }
            throw error
        }
    }

    /// Commits at once, and tries again while the store is in trouble. Only the one writer may call it, or code in its place.
    package func settle(_ settlements: [Settlement]) async throws {
        // Failures in a row that a new process might not meet.
        var failures = 0
        for attempt in 0... {
            do {
                let start = ContinuousClock.now
                state.withLockedValue { $0.askedAt = start }
                defer { state.withLockedValue { $0.askedAt = nil } }
                let now = clock.now
                var rules = rules
                rules.startedAt = intake.since(at: now)
                let batch = try await store.settle(settlements, under: rules, at: now)
                telemetry.storeAnswered(Telemetry.writer)
                storeTrouble.withLockedValue { $0 = nil }
                breakers.note(batch.knownBreakers)
                onSettled(batch)
                telemetry.settled(settlements, batch, in: ContinuousClock.now - start, at: clock.now)
                return
            } catch StoreError.refused(let reason) {
                // The database works and refuses the batch. Claims may go on.
                telemetry.storeAnswered(Telemetry.writer)
                storeTrouble.withLockedValue { $0 = nil }
                guard settlements.count > 1 else { return telemetry.settlementRefused(reason) }
                // One settlement breaks a rule of the schema. The others must not wait for it, and its row comes back alone.
                for one in settlements { try await settle([one]) }
                return
            } catch let error as StoreError {
                storeTrouble.withLockedValue { $0 = error }
                telemetry.storeFailed(error)
                failures = error.endsByItself ? 0 : failures + 1
                if failures > Self.mostTries { throw error }
                try await clock.sleep(for: Self.retries[min(attempt, Self.retries.count - 1)])
            }
        }
    }
}
