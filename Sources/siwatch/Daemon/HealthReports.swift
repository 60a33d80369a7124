// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// The health of the running daemon, for systemd and the HTTP pages.
struct HealthReports {
    let progress: LoopProgress
    let databaseWatch: DatabaseWatch
    let backendWatch: BackendWatch
    let notifier = SystemdNotifier()
    let readiness: Readiness

    init(of daemon: Daemon) {
        let context = daemon.context
        let configuration = context.configuration
        progress = LoopProgress(
            lanes: daemon.lanes,
            pollInterval: configuration.queues.pollInterval,
            longestSilence: context.store.longestSilence,
            writer: daemon.writer
        )
        let databaseWatch = DatabaseWatch(context.store, at: configuration.database.path, logger: context.logger)
        self.databaseWatch = databaseWatch
        let backendWatch = BackendWatch(context.store, at: context.database, clock: context.clock, telemetry: context.telemetry)
        self.backendWatch = backendWatch
        let work: @Sendable () -> String? = { [membership = context.membership] in
            databaseWatch.trouble ?? membership.trouble(clockSkew: configuration.queues.clockSkew)
        }
        readiness = Readiness(
            progress: progress,
            notifier: notifier,
            logger: context.logger,
            trouble: work,
            doorTrouble: { [door = daemon.door?.watch] in door?.trouble },
            backendTrouble: { backendWatch.trouble.map { "backends cannot insert: \($0)" } }
        )
    }
}
