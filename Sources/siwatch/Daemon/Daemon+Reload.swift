// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Logging
import NIOConcurrencyHelpers
import UnixSignals

extension Daemon {
    func reload(on hangups: UnixSignalsSequence, _ health: HealthReports, _ desk: StatusDesk) -> Reload {
        let atWork = NIOLockedValueBox(context.configuration)
        return Reload(
            source: context.configuration.source,
            store: context.store,
            signals: hangups,
            notifier: health.notifier,
            logger: context.logger,
            telemetry: context.telemetry,
            clock: context.clock,
            isStarted: { health.readiness.isStarted },
            keep: { desk.noteReload(mistakes: $0) },
            comment: sayOtherTeams
        ) { [apps, door, deliveries, writer, context] new, keys in
            let taken = atWork.withLockedValue { configuration in
                configuration = configuration.reloading(new)
                return configuration
            }
            context.output.level = taken.log.level
            for app in apps {
                app.use(taken.refresh.limits)
                if app.use(keys, of: new) {
                    writer.breakers.forgetProofs(of: app.atWork.clientIDs)
                    context.telemetry.appUnpaused(app.atWork.name)
                }
            }
            door?.use(keys.http, taken.http)
            deliveries.use(keys)
            context.logger.log(.reloaded)
            let waiting = taken.differences(from: new)
            desk.noteReload(needsRestart: waiting)
            if !waiting.isEmpty { context.logger.log(.reloadNeedsRestart, ["reason": "\(waiting.joined(separator: ", "))"]) }
        }
    }
}
