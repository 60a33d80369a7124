// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialMonitor
import Foundation
import Logging
import NIOConcurrencyHelpers
import UnixSignals

extension Daemon {
    func reload(on hangups: UnixSignalsSequence, _ notifier: SystemdNotifier, _ readiness: Readiness) -> Reload {
        let atWork = NIOLockedValueBox(configuration)
        return Reload(
            source: configuration.source,
            signals: hangups,
            notifier: notifier,
            logger: logger,
            telemetry: telemetry,
            clock: clock,
            isStarted: { readiness.isStarted },
            comment: sayOtherTeams
        ) { [apps, writer, output, logger, telemetry] new, keys in
            let taken = atWork.withLockedValue { configuration in
                configuration = configuration.reloading(new)
                return configuration
            }
            output.level = taken.log.level
            for watched in apps {
                let app = watched.atWork
                for budget in [app.budget, app.codeBudget] { budget.limits = taken.refresh.limits }
                // A key belongs to its team. A key that replaces a wrong one is tried at once.
                let isSameTeam = new.apps.contains { $0.name == app.name && $0.teamID == watched.teamID }
                if isSameTeam, let key = keys.clientSecretKeys[app.name]?.first, watched.secrets.use(key) {
                    for budget in [app.budget, app.codeBudget] { budget.resume() }
                    writer.breakers.forgetProofs(of: app.clientIDs)
                    telemetry.appUnpaused(app.name)
                }
            }
            logger.log(.reloaded)
            let waiting = taken.differences(from: new)
            if !waiting.isEmpty { logger.log(.reloadNeedsRestart, ["reason": "\(waiting.joined(separator: ", "))"]) }
        }
    }
}
