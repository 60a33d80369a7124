// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import Metrics
import NIOConcurrencyHelpers

/// Figures that are read when a scraper asks, and metrics that exist from the start.
extension Telemetry {
    // MARK: The configuration

    package func configurationLoaded(at time: Timestamp) {
        gauge(.configLastReloadSuccessful, 1)
        gauge(.configLastReloadSuccess, time.inSeconds)
    }

    package func suppressed(_ lines: [String: Int]) {
        for (event, number) in lines { count(.logLinesSuppressed, ["event": event], by: number) }
    }

    package func dropped(_ lines: Int) { if lines > 0 { count(.logLinesDropped, by: lines) } }

    // MARK: Figures of the tables

    package func observe(_ overview: Overview) {
        for app in overview.apps {
            gauge(.credentialsPending, Double(app.pending), ["app": app.app])
            gauge(.credentialsNeverAccepted, Double(app.neverAccepted), ["app": app.app])
            gauge(.revocationsHeld, Double(app.revocationsHeld), ["app": app.app])
            gauge(.credentialsUnverified, Double(app.unverified), ["app": app.app])
        }
        for (app, breaker) in overview.breakers { gauge(.breakerMuted, breaker.isMuted(at: overview.at) ? 1 : 0, ["app": app]) }
        for queue in overview.queues {
            gauge(.queueDepth, Double(queue.depth), ["queue": queue.queue])
            gauge(.queueOldest, Double(queue.oldest ?? 0) / 1000, ["queue": queue.queue])
        }
        for (queue, count) in overview.due { gauge(.queueDue, Double(min(count, Overview.mostDue)), ["queue": queue]) }
        for credential in overview.credentials {
            gauge(.credentials, Double(credential.count), ["app": credential.app, "state": credential.state])
        }
        for (app, count) in overview.overdue { gauge(.credentialsOverdue, Double(count), ["app": app]) }
        for (keyID, sealed) in overview.sealed.keys { gauge(.sealedBlobs, Double(sealed.blobs), ["key": keyID]) }
        gauge(.backupLastSuccess, overview.backedUpAt?.inSeconds ?? 0)
        gauge(.tablesRead, overview.at.inSeconds)
    }

    /// Leaves out the figures of the tables that could not be read, because an old one would pass for today's.
    package func tablesUnread() {
        instruments.forgetGauges(of: Metric.ofTables.filter { ![.tablesRead, .logPinnedSince].contains($0) } + [.appPaused])
        let blamed = pauses.withLockedValue { pauses in
            for app in pauses.keys { pauses[app]?.remove(.operator) }
            return pauses.filter { !$0.value.isEmpty }.keys
        }
        for app in blamed { gauge(.appPaused, 1, ["app": app]) }
    }

    /// Leaves out since when erased rows stay readable, because it could not be read.
    package func logPinUnread() { instruments.forgetGauges(of: [.logPinnedSince]) }

    package func observe(lanes: [FleetLane: Bool]) {
        for (lane, isOwned) in lanes { gauge(.laneOwned, isOwned ? 1 : 0, ["lane": "\(lane)"]) }
    }

    /// Leaves shared tables to another replica, so that a sum over replicas counts nothing twice.
    package func leaveTablesToOthers() {
        instruments.forgetGauges(of: Metric.ofTables)
        episodes.forget(.logPinned)
    }

    package func observe(pausesOf apps: [AppStatus]) {
        for app in apps { checks(of: app.app, arePaused: app.pausedAt != nil, because: .operator) }
    }

    package func observe(_ round: CheckRound, of app: String) {
        gauge(.refreshRound, round.ratio, ["app": app])
        // Sign-ins come and go. A round that nearly fits must not be reported again and again.
        if round.fits, round.ratio > 0.95 { return }
        let figures: Logger.Metadata = [
            "count": "\(round.tokens)", "duration_ms": "\(round.duration.milliseconds)",
            "reason": "max_requests_per_second = \(round.sufficientRate) would do",
        ]
        episode(.checksDoNotFit, until: .checksFit, of: ["app": app], round.fits ? nil : "", round.fits ? [:] : figures)
    }

    /// The client of requests without a token that siwatch knows.
    package static let noClient = "none"

    /// Notes an answer to a backend or to Apple; the client is nil without a token, the operation for a path that is none.
    package func served(client: String?, operation: String?, status: Int) {
        count(.httpRequests, ["client": client ?? Self.noClient, "operation": operation ?? "other", "status": "\(status)"])
    }

    /// - Parameter words: of the last refusal, without a value of the request; nil once the door hardly refuses the client.
    package func refusals(of client: String, _ operation: String?, _ words: String?) {
        let subject = ["client": client, "operation": operation ?? "none"]
        // Other words are no news.
        episode(.requestsRefused, until: .requestsTaken, of: subject, words.map { _ in "" }, words.map { ["reason": "\($0)"] } ?? [:])
    }

    /// - Parameter rejected: of each client whose sign-ins nearly all come to nothing, the reason.
    package func observe(signInsRejected rejected: [String: String]) {
        for client in Set(episodes.subjects(of: .signInsRejected).compactMap { $0["client_id"] }).union(rejected.keys) {
            episode(.signInsRejected, until: .signInsTaken, of: ["client_id": client], rejected[client])
        }
    }

    /// Creates the series with known labels at 0 from the start, so that a rate over them misses nothing.
    package func createSeries(apps: [String]) {
        create(.refreshes, apps, RefreshLabel.words)
        create(.firstChecks, apps, ["accepted", "rejected"])
        create(.codeExchanges, apps, GrantRejection.codeOutcomes)
        create(.revocations, apps, RevocationOutcome.words)
        create(.revocations, [""], [RevocationOutcome.rejected.rawValue])
        create(.credentials, apps, CredentialState.words)
        for (to, reason) in StateReason.announced {
            create(.stateTransitions, apps, ["none"] + CredentialState.words, [to.rawValue], [reason.rawValue])
        }
        for metric in [
            Metric.appPaused, .breakerOpen, .breakerMuted, .refreshRound, .credentialsOverdue, .credentialsUnverified,
            .credentialsNeverAccepted, .credentialsPending, .notificationsMissed, .revocationsHeld,
        ] {
            create(metric, apps)
        }
        create(.settlements)
        create(.signingKeyChanges, SigningKeyChange.words)
        create(.plantedDecisions, DecisionRow.Kind.words)
        create(.logLinesSuppressed, LoggedEvent.allCases.map(\.name))
        create(.appleResponses, ["token", "keys", "revoke"], ["200", "400", "429", "timeout"])
        create(.httpRequests, ["apple"], ["receiveNotification"], ["200", "401", "503"])
        create(.httpRefusals, [Self.noClient])
        create(.notificationsRejected, RejectionReason.words)
        create(.grants, GrantLogOutcome.words)
        create(.notifications, Event.Kind.labels, NotificationLogOutcome.words)
    }

    /// Creates a series for every combination of the labels' values.
    func create(_ metric: Metric, _ values: [String]...) {
        let series = zip(metric.labels, values).reduce([[:]] as [[String: String]]) { series, label in
            series.flatMap { known in label.1.map { known.merging([label.0: $0]) { $1 } } }
        }
        for labels in series {
            switch metric.kind {
            case .counter: _ = instruments.counter(metric, labels)
            case .gauge: instruments.gauge(metric, labels).set(0)
            case .histogram: _ = instruments.histogram(metric, labels)
            }
        }
    }
}

extension CaseIterable where Self: RawRepresentable<String> {
    /// Every case, as tables and metrics name it.
    static var words: [String] { allCases.map(\.rawValue) }
}

extension StateReason {
    /// The states to announce. A credential that was never granted is not announced.
    fileprivate static let announced: [(CredentialState, StateReason)] = [
        (.authorized, .granted), (.revoked, .tokenRejected), (.revoked, .consentRevoked), (.revoked, .revokedByApp),
        (.notFound, .accountDeleted),
    ]
}
