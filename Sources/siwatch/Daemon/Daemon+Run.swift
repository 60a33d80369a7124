// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import CredentialMonitor
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

extension Daemon {
    /// Runs until a signal asks for a stop, then drains.
    func run() async throws {
        let health = Health(of: self)
        let desk = StatusDesk(of: self, health)
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        let keeper = context.membership.keeper(writer.breakers, context.sealer, context.store, context.telemetry)
        // Renews now, so that shared lanes need not wait for the keeper's first turn. That turn finds an older replica again.
        await keeper?.renew()
        let group = serviceGroup(services(health, desk, keeper, hangups).map { .init($0) })
        let logger = context.logger
        for warning in context.configuration.warnings { logger.log(.configurationDoubtful, ["reason": "\(warning)"]) }
        do {
            let overview = try await context.store.overview(of: context.configuration, at: context.clock.now, knowing: Overview.Backlog())
            for canary in overview.unknownCanaries { context.telemetry.canaryUnknown(canary.app, userID: canary.userID) }
            say(overview.otherTeams)
            logger.log(.starting, ["version": "\(Version.current)", "count": "\(apps.count)"])
            try await group.run()
        } catch is CancellationError where health.stoppingSince != nil {
            // The stop was cut short in the middle of work.
        } catch {
            // A failed start has no work under way. Other replicas need not take this one for living.
            if !health.isStarted, health.stoppingSince == nil { try? await context.store.fleet?.release() }
            throw error
        }
        let took = health.stoppingSince.map { ContinuousClock.now - $0 } ?? .zero
        logger.log(took < Self.longestStop ? .stopped : .stopCutShort, ["duration_ms": "\(took.milliseconds)"])
    }

    var lanes: Set<Lane> { Set(queues.all.map { $0.lane } + [OperatorRequestHandler.lane] + apps.map(\.refreshes.lane)) }

    /// Services stop in reverse: first readiness, then the loops, then the writer. Metrics are served throughout.
    private func services(_ health: Health, _ desk: StatusDesk, _ keeper: LaneKeeper?, _ hangups: UnixSignalsSequence)
        -> [any Service]
    {
        var services: [any Service] = [
            SystemdReports(health: health, status: { try await desk.report() }, watchdogInterval: SystemdNotifier.watchdogInterval())
        ]
        services += servers(health, desk)
        if let orphans = OwnProcess.orphans { services.append(orphans) }
        if let intakeWatch { services.append(intakeWatch.service) }
        services += [
            apple.keyRefresh, keyTrials.service, maintenance, KeyTurnover(context), schemaWatch, deliveryWatch,
            desk.examination, desk.programWatch, heartbeat(health.progress),
        ]
        services += health.database.services
        // Gives the lanes back after the writer and the loops have stopped.
        if let keeper { services.append(keeper) }
        services.append(writer)
        services += loops(health.progress)
        services.append(deliveries)
        // Takes nothing more once a stop begins.
        if let door { services += [Recurring(every: .seconds(10), onFailure: { _ in }) { door.refusals.look() }, door] }
        services += [Reload(self, on: hangups, health, desk), health]
        return services
    }

    private func loops(_ progress: LoopProgress) -> [any Service] {
        func loop<Handler: WorkHandler>(
            _ handler: Handler,
            on wakeups: Wakeups,
            mayClaim: (@Sendable () -> Bool)? = nil,
            executors: [EventLoopExecutor] = []
        ) -> ClaimLoop<Handler> {
            ClaimLoop(
                handler,
                writer: writer,
                wakeups: wakeups,
                progress: progress,
                mayClaim: mayClaim ?? context.membership.hearsOthers,
                executors: executors
            )
        }
        // A clock that is ahead would take sign-ins before their time, and a request to revoke for a sign-in after it.
        let knowsTime: @Sendable () -> Bool = { [apple, context] in apple.wasAsked && context.membership.hearsOthers() }
        let eventLoops = client.eventLoopGroup.makeIterator().map(EventLoopExecutor.init)
        let overQueues: [any Service] = [
            loop(queues.codes, on: queueWakeups.codes), loop(queues.grants, on: queueWakeups.grants, mayClaim: knowsTime),
            loop(queues.notifications, on: queueWakeups.notifications),
            loop(queues.revocations, on: queueWakeups.revocations, mayClaim: knowsTime),
            requests(queueWakeups.operatorRequests, progress),
        ]
        let ofApps = apps.map { loop($0.refreshes, on: $0.wakeups, executors: eventLoops) }
        return [ParallelServices(services: overQueues + ofApps), CommitHints(context.store, wakeups: queueWakeups.all)]
    }

    /// Reports apps whose tokens Apple has accepted from another team: the app has changed hands, or its `team_id` is wrong.
    private func say(_ teams: [OtherTeam]) {
        for team in teams {
            let reason = "from \(team.oldTeamID), and not from \(team.teamID)"
            context.telemetry.log(.teamChanged, ["app": "\(team.app)", "reason": "\(reason)", "count": "\(team.tokens)"])
        }
    }

    /// The same of a configuration that was taken over. If the database does not answer, other log lines say so.
    func sayOtherTeams(than configuration: Configuration) async {
        let overview = try? await context.store.overview(of: configuration, at: context.clock.now, knowing: Overview.Backlog())
        say(overview?.otherTeams ?? [])
    }

    func serviceGroup(_ services: [ServiceGroupConfiguration.ServiceConfiguration]) -> ServiceGroup {
        var group = ServiceGroupConfiguration(services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: context.logger)
        group.maximumGracefulShutdownDuration = Self.longestStop
        return ServiceGroup(configuration: group)
    }

    /// Less than TimeoutStopSec in the unit. Work that is left then comes back by its lease.
    static let longestStop = Duration.seconds(45)
}

extension ServiceGroupConfiguration.ServiceConfiguration {
    /// By default the group prints all that a service holds, the `sub` of each canary included, into its log.
    init(_ service: some Service, atSuccess: TerminationBehavior = .cancelGroup) {
        self.init(service: service, successTerminationBehavior: atSuccess, serviceName: "\(type(of: service))")
    }
}

/// Services that hear of a stop at the same moment. A service group tells one after the other, each after the one before has ended. With a
/// slow Apple, the last would hear of it too late.
struct ParallelServices: Service {
    let services: [any Service]

    func run() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            for service in services { group.addTask { try await service.run() } }
        }
    }
}
