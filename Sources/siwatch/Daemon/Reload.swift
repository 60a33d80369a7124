// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialSealing
import Foundation
import Logging
import NIOConcurrencyHelpers
import ServiceLifecycle
import UnixSignals

/// Reads the configuration again on SIGHUP, and applies every part that can change while siwatch runs. On any mistake it applies nothing.
struct Reload: Service {
    private let daemon: Daemon
    private let signals: UnixSignalsSequence
    private let health: Health
    private let desk: StatusDesk
    private let atWork: NIOLockedValueBox<Configuration>

    init(_ daemon: Daemon, on signals: UnixSignalsSequence, _ health: Health, _ desk: StatusDesk) {
        self.daemon = daemon
        self.signals = signals
        self.health = health
        self.desk = desk
        atWork = NIOLockedValueBox(daemon.context.configuration)
    }

    private var context: DaemonContext { daemon.context }

    /// Handles signals one after the other, however many come.
    func run() async throws {
        for await _ in signals.cancelOnGracefulShutdown() {
            try? await health.notifier.notify(.reloading, within: .seconds(1))
            await reload()
            // As ready as before, whatever the reload's result and the state of the lanes. Not before the start is over.
            if health.isStarted { try? await health.notifier.notify(.ready, within: .seconds(10)) }
        }
    }

    private func reload() async {
        do {
            // It waits for files and for the parser.
            let (configuration, keys) = try await onOwnThread { [source = context.configuration.source, store = context.store] in
                let configuration = try Configuration(contentsOf: source, isTriedFirst: true)
                let keys = try Keys(configuration)
                do {
                    _ = try configuration.sealer(of: store, keys.ring)
                } catch is StoreError {
                    // A database that is away says so by itself.
                }
                return (configuration, keys)
            }
            try await takeOver(keys.ring, of: configuration)
            takeOver(configuration, keys)
            context.telemetry.configurationLoaded(at: context.clock.now)
            await daemon.sayOtherTeams(than: configuration)
        } catch {
            context.telemetry.gauge(.configLastReloadSuccessful, 0)
            let invalid = (error as? InvalidConfiguration)?.mistakes.map { "\($0)" }
            let mistakes = invalid ?? (error as? CommandFailure)?.messages ?? ["\(error)"]
            desk.noteReload(mistakes: mistakes)
            context.logger.log(.reloadFailed, ["error": "\(mistakes.joined(separator: "; "))"])
        }
    }

    /// Seals with another key ring from now on. The caller has seen that it opens the database, if that answers.
    private func takeOver(_ ring: KeyRing?, of new: Configuration) async throws {
        // The path of another key file counts from the next start.
        guard let ring, new.encryption == context.configuration.encryption, ring.keyIDs != context.sealer.keyIDs else { return }
        for id in context.sealer.keyIDs(lackingIn: ring) {
            guard id != context.sealer.sealingKeyID else {
                let sentence = "\(new.encryption.keyFile) lacks the key \(id), under which this siwatch seals"
                throw CommandFailure.unusable(["encryption.key_file: \(sentence)"])
            }
            try await context.sealer.requireNothing(sealedUnder: id, in: context.store, at: context.clock.now)
        }
        try await context.sealer.note(ring.keyIDs, in: context.store)
        context.sealer.use(ring)
        context.logger.log(.sealingKeysLoaded, ["key_id": "\(ring.keyIDs.joined(separator: ", "))"])
    }

    /// Applies what `reloading` takes over.
    private func takeOver(_ new: Configuration, _ keys: Keys) {
        let taken = atWork.withLockedValue { configuration in
            configuration = configuration.reloading(new)
            return configuration
        }
        context.output.level = taken.log.level
        for app in daemon.apps {
            app.use(taken.refresh.limits)
            if app.use(keys, of: new) {
                daemon.writer.breakers.forgetProofs(of: app.atWork.clientIDs)
                context.telemetry.appUnpaused(app.atWork.name)
            }
        }
        daemon.door?.use(keys.http, taken.http)
        daemon.deliveries.use(keys)
        context.logger.log(.reloaded)
        let waiting = taken.differences(from: new)
        desk.noteReload(needsRestart: waiting)
        if !waiting.isEmpty { context.logger.log(.reloadNeedsRestart, ["reason": "\(waiting.joined(separator: ", "))"]) }
    }
}

extension Configuration {
    /// The configuration at work after a reload: this one, with the changes that are possible while siwatch runs.
    /// `Reload` applies each of them.
    func reloading(_ new: Configuration) -> Configuration {
        var result = self
        result.log.level = new.log.level
        result.refresh.maxRequestsPerSecond = new.refresh.maxRequestsPerSecond
        result.refresh.maxConcurrentRequests = new.refresh.maxConcurrentRequests
        (result.http.clients, result.http.maxRequestsPerSecond) = (new.http.clients, new.http.maxRequestsPerSecond)
        for index in result.deliveries.indices {
            guard let delivery = new.deliveries.first(where: { $0.name == result.deliveries[index].name }) else { continue }
            result.deliveries[index].secretFiles = delivery.secretFiles
            result.deliveries[index].caFile = delivery.caFile
        }
        for index in result.apps.indices {
            // A key belongs to its team.
            guard let app = new.apps.first(where: { $0.name == result.apps[index].name && $0.teamID == result.apps[index].teamID })
            else { continue }
            result.apps[index].keys = app.keys
        }
        return result
    }

    /// The keys whose values differ, as the TOML file names them. `app` if there are more or fewer apps; so for other lists.
    func differences(from other: Configuration) -> [String] {
        let (values, others) = (values, other.values)
        let places = Set(values.keys).union(others.keys).filter { values[$0] != others[$0] }
        let keys = places.map { values[$0] != nil && others[$0] != nil ? $0 : String($0.prefix { $0 != "[" }) }
        return Set(keys).sorted()
    }
}
