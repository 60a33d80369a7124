// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CoreMetrics
package import CredentialCore
package import Logging
internal import Metrics

/// Every log line and every metric, one method for each fact. Called after the commit.
///
/// No token, key, e-mail address or `sub` ever enters a line.
package struct Telemetry: Sendable {
    private let logger: Logger
    let factory: any MetricsFactory
    private let inFlight: Meter
    let pauses = Pauses()
    /// Names a user in a log line without giving the `sub` away.
    private let pseudonym: @Sendable (String) -> String

    package init(
        logger: Logger,
        factory: any MetricsFactory,
        pseudonym: @escaping @Sendable (_ userID: String) -> String
    ) {
        self.logger = logger
        self.factory = factory
        self.pseudonym = pseudonym
        inFlight = Meter(label: Metric.refreshesInFlight.name, factory: factory)
    }

    // MARK: Work

    func claimFailed(_ lane: Lane, _ error: any Error) {
        if error is CancellationError { return }
        count(Metric.storeErrors)
        if case StoreError.full = error { gauge(Metric.storeFull, 1) }
        logger.log(.claimFailed, ["lane": "\(lane)", "error": "\(error)"])
    }

    func settlementFailed(_ lane: Lane, _ error: any Error) {
        if error is CancellationError { return }
        logger.log(.settlementFailed, ["lane": "\(lane)", "error": "\(error)"])
    }

    func settlementRefused(_ reason: String) {
        count(Metric.storeErrors)
        logger.log(.settlementRefused, ["error": "\(reason)"])
    }

    func storeFailed(_ error: StoreError) {
        count(Metric.storeErrors)
        if case .full = error { gauge(Metric.storeFull, 1) }
        logger.log(.commitFailed, ["error": "\(error)"])
    }

    func sealingFailed(_ error: any Error) {
        logger.log(.sealingFailed, ["error": "\(error)"])
    }

    func sealed(_ number: Int) {
        count(Metric.seals, by: number)
    }

    /// A client id comes from the backend and may be anything by mistake, so only what looks like one is shown.
    func unknownClients(_ clientIDs: Set<String>, grants: Int) {
        let shown = clientIDs.filter(\.looksLikeClientID).sorted().prefix(3).joined(separator: ", ")
        logger.log(.unknownClients, ["client_id": "\(shown)", "count": "\(grants)"])
    }

    func operatorRequestAnswered(_ request: OperatorRequest?, _ answer: OperatorAnswer) {
        var metadata: Logger.Metadata = ["type": "\(request?.name ?? "unknown")", "outcome": "\(answer.name)"]
        if let app = request?.app { metadata["app"] = "\(app)" }
        if let userID = request?.userID { metadata["user"] = "\(pseudonym(userID))" }
        logger.log(.operatorRequestAnswered, metadata)
    }

    package func maintenanceFailed(_ error: any Error) {
        logger.log(.maintenanceFailed, ["error": "\(error)"])
    }

    package func foreignCheckpoints(_ number: Int) {
        guard number > 0 else { return }
        count(Metric.foreignCheckpoints, by: number)
        logger.log(.foreignCheckpoint, ["count": "\(number)"])
    }

    // MARK: Apple

    func requestStarted() {
        inFlight.increment()
    }

    func requestEnded(after duration: Duration) {
        inFlight.decrement()
        record(Metric.refreshDuration, duration.inSeconds)
    }

    func refreshAnswered(_ app: String, _ credential: CredentialID, _ outcome: RefreshOutcome) {
        var metadata: Logger.Metadata {
            ["app": "\(app)", "client_id": "\(credential.clientID)", "user": "\(pseudonym(credential.userID))"]
        }
        switch outcome {
        case .valid, .rejected, .misconfigured:
            break
        case .ambiguous(let detail):
            logger.log(.answerAmbiguous, metadata.adding(error: detail))
        case .throttled:
            logger.log(.throttled, ["app": "\(app)"])
        case .unavailable(let detail, _):
            logger.log(.answerUnavailable, metadata.adding(error: detail))
        }
    }

    func tokenUnreadable(_ app: String, _ credential: CredentialID, _ error: any Error) {
        logger.log(
            .tokenUnreadable,
            ["app": "\(app)", "client_id": "\(credential.clientID)", "user": "\(pseudonym(credential.userID))", "error": "\(error)"]
        )
    }

    func appPaused(_ app: String, client: String, error: String, pause: Duration) {
        gauge(Metric.appPaused, pauses.note(.blame, true, of: app) ? 1 : 0, ["app": app])
        logger.log(
            .appPaused,
            ["app": "\(app)", "client_id": "\(client)", "error": "\(error)", "duration_ms": "\(pause.milliseconds)"]
        )
    }

    package func appUnpaused(_ app: String) {
        gauge(Metric.appPaused, pauses.note(.blame, false, of: app) ? 1 : 0, ["app": app])
    }

    func appResumed(_ app: String) {
        appUnpaused(app)
        logger.log(.appResumed, ["app": "\(app)"])
    }

    /// The first line of an episode says what to look at.
    func breakerOpened(_ app: String, _ breaker: RevocationBreaker) {
        gauge(Metric.breakerOpen, 1, ["app": app])
        let causes = breaker.causes.map(\.rawValue).joined(separator: ", ")
        var metadata: Logger.Metadata = ["app": "\(app)", "reason": "\(causes)", "count": "\(breaker.judged.rejections)"]
        if !breaker.blamedClients.isEmpty {
            metadata["client_id"] = "\(breaker.blamedClients.sorted().joined(separator: ", "))"
        } else if !breaker.rejectedCanaries.isEmpty {
            metadata["client_id"] = "\(Set(breaker.rejectedCanaries.map(\.clientID)).sorted().joined(separator: ", "))"
            metadata["user"] = "\(breaker.rejectedCanaries.map { pseudonym($0.userID) }.sorted().joined(separator: ", "))"
        }
        logger.log(.breakerOpened, metadata)
    }

    func breakerClosed(_ app: String) {
        gauge(Metric.breakerOpen, 0, ["app": app])
        logger.log(.breakerClosed, ["app": "\(app)"])
    }

    package func canaryUnknown(_ app: String, userID: String) {
        logger.log(.canaryUnknown, ["app": "\(app)", "user": "\(pseudonym(userID))"])
    }

    package func notificationsMissed(_ missed: [String: Int]) {
        for (app, number) in missed { count(Metric.notificationsMissed, ["app": app], by: number) }
    }

    func appleClock(skew: Duration) {
        gauge(Metric.appleClockSkew, skew.inSeconds)
    }

    func clockSkewed(_ skew: Duration) {
        logger.log(.clockSkewed, ["duration_ms": "\(skew.milliseconds)"])
    }

    func clockRight(_ skew: Duration) {
        logger.log(.clockRight, ["duration_ms": "\(skew.milliseconds)"])
    }

    package func appleAnswered(endpoint: String, status: String) {
        count(Metric.appleResponses, ["endpoint": endpoint, "status": status])
    }

    package func signingKeysRefreshed(count: Int, at time: Timestamp?) {
        gauge(Metric.signingKeys, Double(count))
        if let time { gauge(Metric.signingKeysLastRefresh, time.inSeconds) }
    }

    package func signingKeysFailed(_ reason: String) {
        logger.log(.signingKeysFailed, ["error": "\(reason)"])
    }

    // MARK: Commits

    func settled(_ judged: [Judged], _ batch: SettledBatch, in duration: Duration, at now: Timestamp) {
        gauge(Metric.storeFull, 0)
        record(Metric.storeTransactionDuration, duration.inSeconds)
        record(Metric.settlementBatchSize, Double(judged.count))
        count(Metric.settlements, by: judged.count)
        if batch.evicted > 0 { count(Metric.notificationsEvicted, by: batch.evicted) }
        var tally: [Count: Int] = [:]
        for (judged, result) in zip(judged, batch.results) {
            if let counted = settled(judged, result, at: now) { tally[counted, default: 0] += 1 }
        }
        for transition in batch.transitions {
            tally[Count(transition), default: 0] += 1
            changed(transition)
        }
        for (counted, number) in tally { count(counted.metric, counted.labels, by: number) }
    }

    /// A counter and its labels, to count a batch before touching it.
    private struct Count: Hashable {
        var metric: String
        var labels: [String: String]

        init(_ metric: Metric, _ labels: [String: String]) {
            self.metric = metric.name
            self.labels = labels
        }

        init(_ transition: StateTransition) {
            self.init(
                Metric.stateTransitions,
                [
                    "app": transition.app, "from": transition.from?.rawValue ?? "none", "to": transition.to.rawValue,
                    "reason": transition.reason.rawValue,
                ]
            )
        }
    }

    private func settled(_ judged: Judged, _ result: Settled, at now: Timestamp) -> Count? {
        switch (judged.settlement, result) {
        case (.notification(let work, .verified(let notification)), .notification(let outcome)):
            record(Metric.notificationLag, max(notification.event.occurredAt.duration(to: now).inSeconds, 0))
            gauge(Metric.notificationLastReceived, work.receivedAt.inSeconds)
            return Count(Metric.notifications, ["type": notification.event.kind.label, "outcome": outcome.rawValue])
        case (.notification, .quarantined(let reason)):
            return Count(Metric.notificationsRejected, ["reason": reason.rawValue])
        case (.grant, .grant(let outcome, _)):
            return Count(Metric.grants, ["outcome": outcome.rawValue])
        case (.refresh, .refreshed):
            return judged.refresh.map { Count(Metric.refreshes, ["app": $0.app, "outcome": $0.label.rawValue]) }
        case (.refresh, .held):
            return judged.refresh.map { Count(Metric.refreshes, ["app": $0.app, "outcome": RefreshLabel.held.rawValue]) }
        case (_, .postponed), (_, .superseded):
            return nil
        case (.notification, _), (.grant, _), (.refresh, _), (.admission, _):
            return nil
        }
    }

    private func changed(_ transition: StateTransition) {
        logger.log(
            .credentialChanged,
            [
                "app": "\(transition.app)",
                "client_id": "\(transition.credential.clientID)",
                "user": "\(pseudonym(transition.credential.userID))",
                "state_from": "\(transition.from?.rawValue ?? "none")",
                "state_to": "\(transition.to.rawValue)",
                "reason": "\(transition.reason.rawValue)",
                "source": "\(transition.source.rawValue)",
            ],
            at: transition.to == .authorized ? .debug : nil
        )
    }

    // MARK: -

    func count(_ metric: Metric, _ labels: [String: String] = [:], by number: Int = 1) {
        count(metric.name, labels, by: number)
    }

    func count(_ name: String, _ labels: [String: String], by number: Int) {
        Counter(label: name, dimensions: labels.map { ($0.key, $0.value) }, factory: factory).increment(by: number)
    }

    func gauge(_ metric: Metric, _ value: Double, _ labels: [String: String] = [:]) {
        Meter(label: metric.name, dimensions: labels.map { ($0.key, $0.value) }, factory: factory).set(value)
    }

    func record(_ metric: Metric, _ value: Double) {
        Recorder(label: metric.name, dimensions: [], aggregate: true, factory: factory).record(value)
    }
}

extension OperatorAnswer {
    fileprivate var name: String {
        switch self {
        case .paused: "paused"
        case .resumed: "resumed"
        case .rejectionsConfirmed: "confirmed"
        case .nothingToConfirm: "nothing_to_confirm"
        case .breakerReset: "reset"
        case .rechecking, .recheckingApp: "rechecking"
        case .quarantine: "done"
        case .unknownApp: "unknown_app"
        case .unknownUser: "unknown_user"
        case .expired: "expired"
        case .notUnderstood: "not_understood"
        case .refused: "refused"
        }
    }
}

extension String {
    /// Such as `com.example.app`: neither a `sub` nor a token, whose parts are longer.
    fileprivate var looksLikeClientID: Bool {
        utf8.count <= 100 && split(separator: ".").allSatisfy { $0.utf8.count <= 24 }
            && utf8.allSatisfy {
                $0 == 0x2d || $0 == 0x2e || (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0)
            }
    }
}

extension Logger.Metadata {
    fileprivate func adding(error: String) -> Self {
        merging(["error": "\(error)"]) { _, new in new }
    }
}

extension Timestamp {
    var inSeconds: Double { Double(milliseconds) / 1000 }
}

extension Event.Kind {
    /// The name by which metrics count it; both spellings of the deletion are one.
    fileprivate var label: String {
        switch self {
        case .consentRevoked: "consent-revoked"
        case .accountDeleted: "account-deleted"
        case .emailEnabled: "email-enabled"
        case .emailDisabled: "email-disabled"
        case .unknown: "other"
        }
    }
}
