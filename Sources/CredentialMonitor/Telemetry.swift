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
    // Touched for each piece of work, so made once.
    private let inFlight: Meter
    private let refreshDuration, notificationLag: Recorder
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
        refreshDuration = Recorder(label: Metric.refreshDuration.name, dimensions: [], aggregate: true, factory: factory)
        notificationLag = Recorder(label: Metric.notificationLag.name, dimensions: [], aggregate: true, factory: factory)
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
        refreshDuration.record(duration.inSeconds)
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

    package func signingKeysNotKept(_ reason: String) {
        logger.log(.signingKeysNotKept, ["error": "\(reason)"])
    }

    // MARK: Commits

    func settled(_ judged: [Judged], _ batch: SettledBatch, in duration: Duration, at now: Timestamp) {
        gauge(Metric.storeFull, 0)
        record(Metric.storeTransactionDuration, duration.inSeconds)
        record(Metric.settlementBatchSize, Double(judged.count))
        count(Metric.settlements, by: judged.count)
        if batch.evicted > 0 { count(Metric.notificationsEvicted, by: batch.evicted) }
        var tally: [Tallied: Int] = [:]
        var lastReceived: Timestamp?
        for (judged, result) in zip(judged, batch.results) {
            if case .notification(let work, .verified(let notification)) = judged.settlement, case .notification = result {
                notificationLag.record(max(notification.event.occurredAt.duration(to: now).inSeconds, 0))
                lastReceived = work.receivedAt
            }
            if let counted = Tallied(judged, result) { tally[counted, default: 0] += 1 }
        }
        if let lastReceived { gauge(Metric.notificationLastReceived, lastReceived.inSeconds) }
        for transition in batch.transitions {
            tally[Tallied(transition), default: 0] += 1
            changed(transition)
        }
        for (counted, number) in tally { count(counted.metric, counted.labels, by: number) }
    }

    /// What one settlement or change counts as, to count a batch before touching a counter.
    private enum Tallied: Hashable {
        case notification(Event.Kind.Label, NotificationLogOutcome)
        case quarantined(RejectionReason)
        case grant(GrantLogOutcome)
        case refresh(app: String, RefreshLabel)
        case transition(app: String, from: CredentialState?, to: CredentialState, StateReason)

        init(_ transition: StateTransition) {
            self = .transition(app: transition.app, from: transition.from, to: transition.to, transition.reason)
        }

        /// Nil for what is not settled yet.
        init?(_ judged: Judged, _ result: Settled) {
            switch (judged.settlement, result) {
            case (.notification(_, .verified(let notification)), .notification(let outcome)):
                self = .notification(notification.event.kind.label, outcome)
            case (.notification, .quarantined(let reason)):
                self = .quarantined(reason)
            case (.grant, .grant(let outcome, _)):
                self = .grant(outcome)
            case (.refresh, .refreshed):
                guard let refresh = judged.refresh else { return nil }
                self = .refresh(app: refresh.app, refresh.label)
            case (.refresh, .held):
                guard let refresh = judged.refresh else { return nil }
                self = .refresh(app: refresh.app, .held)
            case (.notification, _), (.grant, _), (.refresh, _), (.admission, _):
                return nil
            }
        }

        var metric: Metric {
            switch self {
            case .notification: .notifications
            case .quarantined: .notificationsRejected
            case .grant: .grants
            case .refresh: .refreshes
            case .transition: .stateTransitions
            }
        }

        var labels: [String: String] {
            switch self {
            case .notification(let type, let outcome): ["type": type.rawValue, "outcome": outcome.rawValue]
            case .quarantined(let reason): ["reason": reason.rawValue]
            case .grant(let outcome): ["outcome": outcome.rawValue]
            case .refresh(let app, let label): ["app": app, "outcome": label.rawValue]
            case .transition(let app, let from, let to, let reason):
                ["app": app, "from": from?.rawValue ?? "none", "to": to.rawValue, "reason": reason.rawValue]
            }
        }
    }

    private func changed(_ transition: StateTransition) {
        logger.log(
            .credentialChanged,
            [
                "app": "\(transition.app)",
                "client_id": "\(transition.credential.clientID)",
                "user": .stringConvertible(LatePseudonym(userID: transition.credential.userID, make: pseudonym)),
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

/// A user's name in the log, made only for a line that is written: in a flood most are held back.
private struct LatePseudonym: CustomStringConvertible, Sendable {
    let userID: String
    let make: @Sendable (String) -> String

    var description: String { make(userID) }
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
    fileprivate enum Label: String {
        case consentRevoked = "consent-revoked"
        case accountDeleted = "account-deleted"
        case emailEnabled = "email-enabled"
        case emailDisabled = "email-disabled"
        case other
    }

    fileprivate var label: Label {
        switch self {
        case .consentRevoked: .consentRevoked
        case .accountDeleted: .accountDeleted
        case .emailEnabled: .emailEnabled
        case .emailDisabled: .emailDisabled
        case .unknown: .other
        }
    }
}
