// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CoreMetrics
package import CredentialCore
package import Logging
import Metrics
import NIOConcurrencyHelpers

/// Every log line and every metric, one method for each fact. Called after the commit.
///
/// No token, key, e-mail address or `sub` ever enters a line.
package struct Telemetry: Sendable {
    let logger: Logger
    let factory: any MetricsFactory
    // Touched for each piece of work, so made once.
    private let inFlight: Meter
    private let refreshDuration: Recorder
    private let codeExchangeDuration: Recorder
    let notificationLag: Recorder
    let pauses = PauseReasons()
    let rounds = NIOLockedValueBox(CheckRoundWatch())
    /// Names a user in a log line without giving the `sub` away.
    let pseudonym: @Sendable (String) -> String

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
        codeExchangeDuration = Recorder(
            label: Metric.codeExchangeDuration.name,
            dimensions: [],
            aggregate: true,
            factory: factory
        )
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

    func grantsFromFuture(_ number: Int) {
        logger.log(.grantsFromFuture, ["count": "\(number)"])
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

    func logPinned(since: Timestamp?) {
        gauge(Metric.logPinnedSince, since?.inSeconds ?? 0)
    }

    func logStaysPinned(for duration: Duration) {
        logger.log(.logPinned, ["duration_ms": "\(duration.milliseconds)"])
    }

    func logEmptied() {
        logger.log(.logEmptied)
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
        case .anotherUser:
            logger.log(.answerAmbiguous, metadata.adding(error: "id_token of another user"))
        case .throttled:
            throttled(app)
        case .unavailable(let detail, _):
            logger.log(.answerUnavailable, metadata.adding(error: detail))
        }
    }

    func codeExchanged(in duration: Duration) {
        codeExchangeDuration.record(duration.inSeconds)
    }

    func codeUnanswered(_ app: String, client: String, _ detail: String) {
        logger.log(.answerUnavailable, ["app": "\(app)", "client_id": "\(client)", "error": "\(detail)"])
    }

    func throttled(_ app: String) {
        logger.log(.throttled, ["app": "\(app)"])
    }

    func codeJudged(_ work: ClaimedCode, _ verdict: CodeVerdict) {
        guard case .rejected(let reason, let detail) = verdict else { return }
        var metadata: Logger.Metadata = ["reason": "\(reason.rawValue)"]
        if let app = work.app { metadata["app"] = "\(app)" }
        if let clientID = work.content?.clientID, clientID.looksLikeClientID { metadata["client_id"] = "\(clientID)" }
        if let userID = work.content?.userID { metadata["user"] = "\(pseudonym(userID))" }
        if let detail { metadata["error"] = "\(detail)" }
        logger.log(.codeRejected, metadata)
    }

    func codeTokenKept(_ clientID: String) {
        logger.log(.codeTokenKept, ["client_id": "\(clientID)"])
    }

    func revokeAnswered(_ app: String, _ credential: CredentialID, _ outcome: RevokeOutcome) {
        switch outcome {
        case .accepted, .misconfigured: break
        case .throttled: throttled(app)
        case .unavailable(let detail, _):
            logger.log(
                .answerUnavailable,
                [
                    "app": "\(app)", "client_id": "\(credential.clientID)", "user": "\(pseudonym(credential.userID))",
                    "error": "\(detail)",
                ]
            )
        }
    }

    func tokenUnreadable(_ app: String, _ credential: CredentialID, _ error: any Error) {
        logger.log(
            .tokenUnreadable,
            ["app": "\(app)", "client_id": "\(credential.clientID)", "user": "\(pseudonym(credential.userID))", "error": "\(error)"]
        )
    }

    func appPaused(_ app: String, client: String, error: String, pause: Duration) {
        checks(of: app, arePaused: true, because: .blame)
        logger.log(
            .appPaused,
            ["app": "\(app)", "client_id": "\(client)", "error": "\(error)", "duration_ms": "\(pause.milliseconds)"]
        )
    }

    package func appUnpaused(_ app: String) {
        checks(of: app, arePaused: false, because: .blame)
    }

    /// An app's checks may be paused by Apple's blame and by an operator; the gauge stands at 1 for either.
    func checks(of app: String, arePaused: Bool, because reason: PauseReasons.Reason) {
        gauge(Metric.appPaused, pauses.note(reason, arePaused, of: app) ? 1 : 0, ["app": app])
    }

    func appResumed(_ app: String) {
        appUnpaused(app)
        logger.log(.appResumed, ["app": "\(app)"])
    }

    /// The first line of an episode says what to look at.
    func breakerOpened(_ app: String, _ breaker: RejectionBreaker) {
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

    func clockHeld(_ isHeld: Bool) {
        gauge(Metric.clockHeld, isHeld ? 1 : 0)
    }

    func clockDoubted(_ doubt: ClockTrust.Doubt) {
        logger.log(.clockDoubted, ["reason": "\(doubt.rawValue)"])
    }

    func clockTrusted() {
        logger.log(.clockTrusted)
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

    // MARK: Instruments

    func count(_ metric: Metric, _ labels: [String: String] = [:], by number: Int = 1) {
        Counter(label: metric.name, dimensions: labels.map { ($0.key, $0.value) }, factory: factory).increment(by: number)
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
            && utf8.allSatisfy { $0.isLetterOrDigit || "-.".utf8.contains($0) }
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
