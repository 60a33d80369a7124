// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CoreMetrics
package import CredentialCore
package import Logging
import NIOConcurrencyHelpers

/// Every log line and every metric. What is more than one line or one figure has a method. Call it after the commit. No line holds a token,
/// a key, an e-mail address or a `sub`.
package struct Telemetry: Sendable {
    let logger: Logger
    let instruments: Instruments
    // Kept here because each piece of work uses them, and a look-up costs too much.
    let inFlight: Meter
    let refreshDuration: Recorder
    let notificationLag: Recorder
    let episodes = Episodes()
    let pauses = NIOLockedValueBox<[String: Set<PauseReason>]>([:])
    let absence = Outages<AskingLane, Timestamp>(.ofApple)
    let answers = NIOLockedValueBox<[String: [AskingLane: LaneAnswer]]>([:])
    let recent = RecentChecks()
    let keysDisbelieved = NIOLockedValueBox<Timestamp?>(nil)
    let plantedAt = NIOLockedValueBox<Timestamp?>(nil)
    let outage = Outages<String, ContinuousClock.Instant>(.init(reminder: .minutes(1)))
    let isDiskFull = NIOLockedValueBox(false)
    let deliveryStates = NIOLockedValueBox<[String: DeliveryState]>([:])
    /// Names a user in a log line without giving the `sub` away.
    package let pseudonym: @Sendable (String) -> String

    package init(logger: Logger, factory: any MetricsFactory, pseudonym: @escaping @Sendable (_ userID: String) -> String) {
        self.logger = logger
        self.pseudonym = pseudonym
        instruments = Instruments(factory)
        inFlight = instruments.gauge(.refreshesInFlight)
        refreshDuration = instruments.histogram(.refreshDuration)
        notificationLag = instruments.histogram(.notificationLag)
    }

    // MARK: Work

    func claimFailed(_ lane: Lane, _ error: any Error) {
        if error is CancellationError { return }
        count(.storeErrors)
        if case StoreError.full = error { gauge(.storeFull, 1) }
        storeFailed("\(lane)", .claimFailed, error, ["lane": "\(lane)"])
    }

    /// Notes that a commit found room. Now and then a small one does on a full disk.
    func commitFoundRoom() { if !isDiskFull.withLockedValue({ $0 }) { gauge(.storeFull, 0) } }

    /// Logs that the database does not answer: a line a minute for each error, even if several lanes meet it.
    private func storeFailed(_ sufferer: String, _ event: LoggedEvent, _ error: any Error, _ metadata: Logger.Metadata = [:]) {
        guard outage.failed("", sufferer, "\(event) \(error)", at: .now) != nil else { return }
        log(event, metadata.adding(error: error))
    }

    /// Notes that the database has answered one whose last try failed.
    func storeAnswered(_ sufferer: String) {
        if let end = outage.answered("", sufferer, at: .now) { log(.storeRecovered, end.metadata) }
    }

    static let writer = "the writer"
    static let renewals = "the renewals"

    func settlementFailed(_ lane: Lane, _ error: any Error) {
        if error is CancellationError { return }
        log(.settlementFailed, ["lane": "\(lane)", "error": "\(error)"])
    }

    func settlementRefused(_ reason: String) {
        count(.storeErrors)
        log(.settlementRefused, ["error": "\(reason)"])
    }

    func storeFailed(_ error: StoreError) {
        count(.storeErrors)
        if case .full = error { gauge(.storeFull, 1) }
        storeFailed(Self.writer, .commitFailed, error)
    }

    /// Only text that looks like a client id is shown: it comes from the backend and may be anything by mistake.
    func unknownClients(_ clientIDs: Set<String>, grants: Int) {
        let shown = clientIDs.filter(\.looksLikeClientID).sorted().prefix(3).joined(separator: ", ")
        log(.unknownClients, ["client_id": "\(shown)", "count": "\(grants)"])
    }

    func operatorRequestAnswered(_ request: OperatorRequest?, _ answer: OperatorAnswer) {
        var metadata: Logger.Metadata = ["type": "\(request?.name ?? "unknown")", "outcome": "\(caseName(of: answer))"]
        if let app = request?.app { metadata["app"] = "\(app)" }
        if let userID = request?.userID { metadata["user"] = "\(pseudonym(userID))" }
        log(.operatorRequestAnswered, metadata)
    }

    package func decisionsPlanted(_ planted: [PlantedDecisions], at now: Timestamp) {
        for decisions in planted {
            plantedAt.withLockedValue { $0 = now }
            count(.plantedDecisions, ["kind": decisions.kind.rawValue], by: decisions.count)
            let ids = decisions.ids.map(String.init).joined(separator: ", ")
            log(.decisionPlanted, ["kind": "\(decisions.kind.rawValue)", "count": "\(decisions.count)", "rows": "\(ids)"])
        }
    }

    /// When a decision was last found that siwatch had not written; nil if none was since the start.
    package var decisionPlantedAt: Timestamp? { plantedAt.withLockedValue(\.self) }

    /// - Parameter obstacle: why backends cannot insert, with harmless characters only; nil if they can.
    package func observe(insertObstacle obstacle: String?) {
        gauge(.storeWritable, obstacle == nil ? 1 : 0)
        episode(.insertsBlocked, until: .insertsPossible, obstacle)
    }

    package func observe(isDiskFull isFull: Bool) {
        isDiskFull.withLockedValue { $0 = isFull }
        gauge(.storeFull, isFull ? 1 : 0)
    }

    package func maintenanceFailed(_ error: any Error) { log(.maintenanceFailed, ["error": "\(error)"]) }

    package func foreignCheckpoints(_ number: Int) {
        guard number > 0 else { return }
        count(.foreignCheckpoints, by: number)
        log(.foreignCheckpoint, ["count": "\(number)"])
    }

    /// Reports a reader that keeps erased tokens readable, in a file's log or in dead rows of a server, once it has stayed for a minute.
    package func observe(logPinnedSince since: Timestamp?, at now: Timestamp) {
        gauge(.logPinnedSince, since?.inSeconds ?? 0)
        let duration = since?.duration(to: now)
        if let duration, duration < .minutes(1) { return }
        episode(.logPinned, until: .logEmptied, duration.map { _ in "" }, duration.map { ["duration_ms": "\($0.milliseconds)"] } ?? [:])
    }

    // MARK: The fleet

    func laneLost(_ lane: FleetLane) {
        log(.laneLost, ["lane": "\(lane)"])
        // The lane's next owner hears whether Apple still blames us.
        if case .app(let app) = lane {
            appUnpaused(app)
            absence.forget(app)
        }
    }

    func renewalFailed(_ error: any Error) {
        if error is CancellationError { return }
        storeFailed(Self.renewals, .renewalFailed, error)
    }

    // MARK: Instruments

    package func log(_ event: LoggedEvent, _ metadata: @autoclosure () -> Logger.Metadata = [:], at level: Logger.Level? = nil) {
        logger.log(event, metadata(), at: level)
    }

    package func count(_ metric: Metric, _ labels: [String: String] = [:], by number: Int = 1) {
        instruments.counter(metric, labels).increment(by: number)
    }

    package func gauge(_ metric: Metric, _ value: Double, _ labels: [String: String] = [:]) {
        instruments.gauge(metric, labels).set(value)
    }

    func record(_ metric: Metric, _ value: Double) { instruments.histogram(metric).record(value) }
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
