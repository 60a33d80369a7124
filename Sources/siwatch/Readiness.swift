// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Logging
import NIOConcurrencyHelpers
import ServiceLifecycle

/// Says when the daemon is ready and when it no longer is. Last in the service group, so first to hear of a stop.
final class Readiness: Service {
    private let progress: LoopProgress
    private let notifier: SystemdNotifier
    private let logger: Logger
    private let state = NIOLockedValueBox(OperationsServer.Condition.bad("starting"))

    init(progress: LoopProgress, notifier: SystemdNotifier, logger: Logger) {
        self.progress = progress
        self.notifier = notifier
        self.logger = logger
    }

    /// Good from the first turn of every loop to the first moment of a stop, while every loop turns.
    var condition: OperationsServer.Condition {
        let condition = state.withLockedValue { $0 }
        guard case .good = condition else { return condition }
        let stalled = progress.stalled
        return stalled.isEmpty ? .good : .bad("no progress: \(stalled.joined(separator: ", "))")
    }

    func run() async throws {
        guard await progress.waitForFirstTurns() else { return }
        state.withLockedValue { $0 = .good }
        tell(.ready)
        logger.notice("siwatch is ready")
        try? await gracefulShutdown()
        state.withLockedValue { $0 = .bad("stopping") }
        tell(.stopping)
        logger.notice("siwatch stops; what is in flight is settled first")
    }

    private func tell(_ message: SystemdNotifier.Message) {
        do {
            try notifier.notify(message)
        } catch {
            logger.warning("systemd was not told", metadata: ["error": "\(error)"])
        }
    }
}
