// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation
import Logging
import ServiceLifecycle
import UnixSignals

/// Reads the configuration again on SIGHUP, and applies every part that can change while siwatch runs. On any mistake it applies nothing.
struct Reload: Service {
    let source: String
    let store: any CredentialStore
    let signals: UnixSignalsSequence
    let notifier: SystemdNotifier
    let logger: Logger
    let telemetry: Telemetry
    let clock: WallClock
    let isStarted: @Sendable () -> Bool
    /// Keeps how the last reload went.
    let keep: @Sendable (_ mistakes: [String]) -> Void
    /// Reports on a configuration that was applied.
    let comment: @Sendable (Configuration) async -> Void
    let takeOver: @Sendable (Configuration, Keys) -> Void

    /// Handles signals one after the other, however many come.
    func run() async throws {
        for await _ in signals.cancelOnGracefulShutdown() {
            try? await notifier.notify(.reloading, within: .seconds(1))
            await reload()
            // As ready as before, whatever the reload's result and the state of the lanes. Not before the start is over.
            if isStarted() { try? await notifier.notify(.ready, within: .seconds(10)) }
        }
    }

    private func reload() async {
        do {
            // It waits for files and for the parser.
            let (configuration, keys) = try await onOwnThread { [source, store] in
                let configuration = try Configuration(contentsOf: source, isTriedFirst: true)
                let keys = try Keys(configuration)
                do {
                    try keys.check(store, of: configuration)
                } catch is StoreError {
                    // A database that is away says so by itself.
                }
                return (configuration, keys)
            }
            takeOver(configuration, keys)
            telemetry.configurationLoaded(at: clock.now)
            await comment(configuration)
        } catch {
            telemetry.gauge(.configLastReloadSuccessful, 0)
            let mistakes = (error as? InvalidConfiguration)?.mistakes.map { "\($0)" } ?? (error as? CommandFailure)?.messages
            keep(mistakes ?? ["\(error)"])
            logger.log(.reloadFailed, ["error": "\((mistakes ?? ["\(error)"]).joined(separator: "; "))"])
        }
    }

    /// Ignores SIGHUP until the service runs, because by default SIGHUP ends the process.
    static func ignoreEarlySignals() {
        signal(SIGHUP, SIG_IGN)
    }
}

extension Configuration {
    /// The configuration at work after a reload: this one, with the changes that are possible while siwatch runs.
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

    /// The keys whose values differ, as the TOML file names them. `app` if there are more or fewer apps; so for deliveries.
    func differences(from other: Configuration) -> [String] {
        let (tables, others) = (tables, other.tables)
        let lists = [("app", apps.count, other.apps.count), ("delivery", deliveries.count, other.deliveries.count)]
        return lists.filter { $0.1 != $0.2 }.map(\.0)
            + tables.filter { others[$0.key] != nil }.sorted { $0.key < $1.key }.flatMap { table, values in
                zip(Mirror(reflecting: values).children, Mirror(reflecting: others[table]!).children)
                    .filter { "\($0.value)" != "\($1.value)" }
                    .map { key, _ in "\(table).\((key.label ?? "").inSnakeCase)" }
            }
    }

    /// The values of each table, by its name.
    private var tables: [String: Any] {
        var tables: [String: Any] = [:]
        for child in Mirror(reflecting: self).children where Mirror(reflecting: child.value).displayStyle == .struct {
            tables[(child.label ?? "").inSnakeCase] = child.value
        }
        for (index, app) in apps.enumerated() { tables["app[\(index)]"] = app }
        for (index, delivery) in deliveries.enumerated() { tables["delivery[\(index)]"] = delivery }
        return tables
    }
}

extension String {
    /// `maxPerHour` as `max_per_hour`, and `clientIDs` as `client_ids`.
    fileprivate var inSnakeCase: String {
        replacing(/([a-z])([A-Z])/) { "\($0.1)_\($0.2)" }.lowercased()
    }
}
