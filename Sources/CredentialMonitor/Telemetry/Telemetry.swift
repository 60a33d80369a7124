// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CoreMetrics
import CredentialCore
package import Logging
import NIOConcurrencyHelpers

/// Every log line and every metric, with one method for each fact. Call them after the commit.
///
/// No line holds a token, a key, an e-mail address or a `sub`.
package struct Telemetry: Sendable {
    let logger: Logger
    let instruments: Instruments
    // Kept here because each piece of work uses them, and a look-up costs too much.
    let inFlight: Meter
    let refreshDuration: Recorder
    let codeExchangeDuration: Recorder
    let notificationLag: Recorder
    let pauses = PauseReasons()
    let absence = AppleAbsence()
    let answers = LastAnswers()
    let recent = RecentChecks()
    let keysDisbelieved = NIOLockedValueBox<Timestamp?>(nil)
    let outage = StoreOutage()
    /// Whether the disk of the database has no room for another row, as of the last look.
    let isDiskFull = NIOLockedValueBox(false)
    let deliveryStates = DeliveryStates()
    let rounds = NIOLockedValueBox(CheckRoundWatch())
    /// Names a user in a log line without giving the `sub` away.
    package let pseudonym: @Sendable (String) -> String

    package init(
        logger: Logger,
        factory: any MetricsFactory,
        pseudonym: @escaping @Sendable (_ userID: String) -> String
    ) {
        self.logger = logger
        self.pseudonym = pseudonym
        instruments = Instruments(factory)
        inFlight = instruments.gauge(.refreshesInFlight)
        refreshDuration = instruments.histogram(.refreshDuration)
        codeExchangeDuration = instruments.histogram(.codeExchangeDuration)
        notificationLag = instruments.histogram(.notificationLag)
    }

    // MARK: Work

    func claimFailed(_ lane: Lane, _ error: any Error) {
        if error is CancellationError { return }
        count(Metric.storeErrors)
        if case StoreError.full = error { gauge(Metric.storeFull, 1) }
        guard outage.failed("\(lane)", line: "\(LoggedEvent.claimFailed) \(error)") else { return }
        logger.log(.claimFailed, ["lane": "\(lane)", "error": "\(error)"])
    }

    /// Notes that a commit found room. Now and then a small one does on a full disk.
    func commitFoundRoom() {
        if !isDiskFull.withLockedValue({ $0 }) { gauge(Metric.storeFull, 0) }
    }

    /// Notes that the database has answered a loop.
    func storeAnswered(_ lane: Lane) {
        storeAnswered("\(lane)")
    }

    func renewed() {
        storeAnswered(Self.renewals)
    }

    /// - Parameter sufferer: as it was named when its last try failed.
    func storeAnswered(_ sufferer: String) {
        guard let end = outage.succeeded(sufferer) else { return }
        logger.log(.storeRecovered, ["count": "\(end.failures)", "duration_ms": "\(end.lasted.milliseconds)"])
    }

    static let writer = "the writer"
    private static let renewals = "the renewals"

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
        guard outage.failed(Self.writer, line: "\(LoggedEvent.commitFailed) \(error)") else { return }
        logger.log(.commitFailed, ["error": "\(error)"])
    }

    func sealingFailed(_ error: any Error) {
        logger.log(.sealingFailed, ["error": "\(error)"])
    }

    func sealed(_ number: Int) {
        count(Metric.seals, by: number)
    }

    /// Only text that looks like a client id is shown: it comes from the backend and may be anything by mistake.
    func unknownClients(_ clientIDs: Set<String>, grants: Int) {
        let shown = clientIDs.filter(\.looksLikeClientID).sorted().prefix(3).joined(separator: ", ")
        logger.log(.unknownClients, ["client_id": "\(shown)", "count": "\(grants)"])
    }

    func tokenUndelivered(_ error: DeliveryError) {
        logger.log(.tokenUndelivered, ["reason": "\(error)"])
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

    /// - Parameter difference: with harmless characters only.
    package func schemaForeign(_ difference: String) {
        logger.log(.schemaForeign, ["reason": "\(difference)"])
    }

    /// - Parameters:
    ///   - obstacle: why backends cannot insert, with harmless characters only; nil if they can.
    ///   - before: the same, a look ago.
    package func observe(insertObstacle obstacle: String?, before: String?) {
        gauge(Metric.storeWritable, obstacle == nil ? 1 : 0)
        guard obstacle != before else { return }
        if let obstacle { logger.log(.insertsBlocked, ["reason": "\(obstacle)"]) } else { logger.log(.insertsPossible) }
    }

    /// - Parameter isFull: whether the disk has no room for another row.
    package func observe(isDiskFull isFull: Bool) {
        isDiskFull.withLockedValue { $0 = isFull }
        gauge(Metric.storeFull, isFull ? 1 : 0)
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

    // MARK: The fleet

    func laneTaken(_ lane: FleetLane, epoch: Int64) {
        logger.log(.laneTaken, ["lane": "\(lane)", "count": "\(epoch)"])
    }

    func laneLost(_ lane: FleetLane) {
        logger.log(.laneLost, ["lane": "\(lane)"])
        // The lane's next owner hears whether Apple still blames us.
        if case .app(let app) = lane {
            appUnpaused(app)
            absence.forget(app)
        }
    }

    func renewalFailed(_ error: any Error) {
        if error is CancellationError { return }
        guard outage.failed(Self.renewals, line: "\(LoggedEvent.renewalFailed) \(error)") else { return }
        logger.log(.renewalFailed, ["error": "\(error)"])
    }

    // MARK: Instruments

    func count(_ metric: Metric, _ labels: [String: String] = [:], by number: Int = 1) {
        instruments.counter(metric, labels).increment(by: number)
    }

    func gauge(_ metric: Metric, _ value: Double, _ labels: [String: String] = [:]) {
        instruments.gauge(metric, labels).set(value)
    }

    func record(_ metric: Metric, _ value: Double) {
        instruments.histogram(metric).record(value)
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
        case .revocationsReleased: "released"
        case .brakeNotSet: "brake_not_set"
        case .rechecking, .recheckingApp: "rechecking"
        case .quarantine: "done"
        case .forgotten: "forgotten"
        case .importUndone: "undone"
        case .stillAuthorized: "still_authorized"
        case .stillWaiting: "still_waiting"
        case .unknownApp: "unknown_app"
        case .unknownUser: "unknown_user"
        case .expired: "expired"
        case .notUnderstood: "not_understood"
        case .refused: "refused"
        }
    }
}

extension String {
    /// Whether the text looks like `com.example.app`. A `sub` and a token have longer parts.
    package var looksLikeClientID: Bool {
        utf8.count <= 100 && split(separator: ".").allSatisfy { $0.utf8.count <= 24 }
            && utf8.allSatisfy { $0.isLetterOrDigit || "-.".utf8.contains($0) }
    }
}

extension Timestamp {
    var inSeconds: Double { Double(milliseconds) / 1000 }
}
