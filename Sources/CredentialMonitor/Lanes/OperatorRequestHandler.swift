// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers
import ServiceLifecycle

/// Carries out the requests of operators' commands within milliseconds, because a command waits for its answer. Requests change schedules,
/// the quarantine and pauses, or forget a user. They tell no news of a state, so they need no writer.
package struct OperatorRequestHandler: Service, LanePart {
    let context: LaneContext
    private let desk: any OperatorDesk
    private let reader: any BreakerReader
    /// Whether the store holds newer breakers and pauses than this process knows.
    private let isStale = NIOLockedValueBox(false)
    private let rules: @Sendable () -> RecheckRules
    private let wakeups: Wakeups
    private let refreshes: [Wakeups]
    private let progress: LoopProgress

    package static let lane = Lane.operatorRequests

    package init(
        desk: any OperatorDesk,
        reader: any BreakerReader,
        rules: @escaping @Sendable () -> RecheckRules,
        wakeups: Wakeups,
        refreshes: [Wakeups] = [],
        progress: LoopProgress,
        _ context: LaneContext
    ) {
        self.desk = desk
        self.reader = reader
        self.rules = rules
        self.context = context
        (self.wakeups, self.refreshes, self.progress) = (wakeups, refreshes, progress)
    }

    package func run() async throws {
        for await _ in wakeups.untilShutdown() {
            do {
                // A long request goes on at the next start.
                while !Task.isShuttingDownGracefully, try await handleNext() { progress.turn(Self.lane) }
                progress.turn(Self.lane)
                telemetry.storeAnswered("\(Self.lane)")
            } catch {
                progress.refused(Self.lane, because: error)
                telemetry.claimFailed(Self.lane, error)
            }
        }
    }

    package func handleNext() async throws -> Bool {
        // The load may have failed after the last request.
        if isStale.withLockedValue(\.self) { try await takeOver() }
        let handled = try await desk.handleNextRequest(under: rules(), at: clock.now)
        let planted = desk.takePlanted()
        telemetry.decisionsPlanted(planted, at: clock.now)
        if let handled, let answer = handled.answer { telemetry.operatorRequestAnswered(handled.request, answer) }
        if handled?.request?.changesPauses == true || !planted.isEmpty {
            isStale.withLockedValue { $0 = true }
            try await takeOver()
        } else if handled != nil {
            hint()
        }
        return handled != nil
    }

    private func takeOver() async throws {
        try await breakers.load(from: reader)
        isStale.withLockedValue { $0 = false }
        hint()
    }

    private func hint() { for wakeup in refreshes { wakeup.hint() } }
}
