// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import Metrics
import NIOConcurrencyHelpers

/// What siwatch asked Apple, what Apple answered, and what follows for an app.
extension Telemetry {
    func requestStarted() {
        inFlight.increment()
    }

    func requestEnded(after duration: Duration) {
        inFlight.decrement()
        refreshDuration.record(duration.inSeconds)
    }

    func refreshAnswered(_ app: String, _ credential: CredentialID, _ answer: EndpointAnswer<RefreshNews>) {
        switch answer {
        case .news(.valid), .news(.unnamed), .news(.rejected): break
        case .news(.ambiguous(let detail)): logger.log(.answerAmbiguous, metadata(app, credential).adding(error: detail))
        case .news(.anotherUser): logger.log(.answerAmbiguous, metadata(app, credential).adding(error: "id_token of another user"))
        case .misconfigured, .throttled, .unavailable: answered(app, credential, answer)
        }
    }

    /// Logs why an answer says nothing of a token.
    func answered<News>(_ app: String, _ credential: CredentialID, _ answer: EndpointAnswer<News>) {
        switch answer {
        case .news, .misconfigured: break
        case .throttled: throttled(app)
        case .unavailable(let detail, _, _): logger.log(.answerUnavailable, metadata(app, credential).adding(error: detail))
        }
    }

    /// Notes a request without a usable answer.
    func appleFailed(_ app: String, _ lane: AskingLane, _ kind: String, at now: Timestamp) {
        guard let news = absence.failed(app, lane, kind, at: now) else { return }
        logger.log(.appleUnreachable, ["app": "\(app)", "error": "\(kind)"].adding(news))
    }

    /// Notes an answer, whatever it says.
    func appleAnswered(_ app: String, _ lane: AskingLane, at now: Timestamp) {
        guard let news = absence.answered(app, lane, at: now) else { return }
        logger.log(.appleReachable, ["app": "\(app)"].adding(news))
    }

    private func metadata(_ app: String, _ credential: CredentialID) -> Logger.Metadata {
        ["app": "\(app)", "client_id": "\(credential.clientID)", "user": "\(pseudonym(credential.userID))"]
    }

    /// Counts the first check of a token that Apple had not accepted before.
    func firstChecked(_ app: String, _ answer: EndpointAnswer<RefreshNews>) {
        switch answer {
        case .news(.valid): count(Metric.firstChecks, ["app": app, "outcome": FirstCheckLabel.accepted.rawValue])
        case .news(.rejected): count(Metric.firstChecks, ["app": app, "outcome": FirstCheckLabel.rejected.rawValue])
        case .news(.unnamed), .news(.ambiguous), .news(.anotherUser), .misconfigured, .throttled, .unavailable: break
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
        if case .rejected(let reason, let detail) = verdict { codeRejected(work, reason, detail: detail) }
    }

    /// Logs that a code brought no sign-in.
    func codeRejected(_ work: ClaimedCode, _ reason: GrantRejection, detail: String?) {
        var metadata: Logger.Metadata = ["reason": "\(reason.rawValue)"]
        if let app = work.app { metadata["app"] = "\(app)" }
        if let clientID = work.content?.clientID, clientID.looksLikeClientID { metadata["client_id"] = "\(clientID)" }
        if let userID = work.content?.userID { metadata["user"] = "\(pseudonym(userID))" }
        if let detail { metadata["error"] = "\(detail)" }
        logger.log(.codeRejected, metadata)
    }

    func codeTokenKept(_ clientID: String, because reason: TokenKept) {
        logger.log(
            .codeTokenKept,
            ["client_id": "\(clientID)", "reason": "\(reason.rawValue)"],
            at: reason.isMistake ? .warning : nil
        )
    }

    func tokenUnreadable(_ app: String, _ credential: CredentialID, _ error: any Error) {
        logger.log(.tokenUnreadable, metadata(app, credential).adding(error: "\(error)"))
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

    /// Notes a reason to pause an app's checks: Apple's blame of a client, or an operator. The gauge is 1 for either.
    func checks(of app: String, arePaused: Bool, because reason: PauseReasons.Reason) {
        gauge(Metric.appPaused, pauses.note(reason, arePaused, of: app) ? 1 : 0, ["app": app])
    }

    /// - Parameter isAnyBlamed: whether another client of the app is still blamed.
    func clientResumed(_ app: String, client: String, isAnyBlamed: Bool) {
        if !isAnyBlamed { appUnpaused(app) }
        logger.log(.appResumed, ["app": "\(app)", "client_id": "\(client)"])
    }

    /// Logs the start of an episode, with what to look at.
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

    /// - Parameter count: how many tokens Apple has accepted from a team that the configuration does not name.
    package func teamChanged(_ app: String, from oldTeam: String, to team: String, count: Int) {
        logger.log(.teamChanged, ["app": "\(app)", "reason": "from \(oldTeam), and not from \(team)", "count": "\(count)"])
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

    package func signingKeysChanged(_ change: SigningKeyChange, _ keyIDs: [String], at now: Timestamp) {
        count(Metric.signingKeyChanges, ["change": change.rawValue], by: keyIDs.count)
        let ids = keyIDs.joined(separator: ", ")
        switch change {
        case .new: logger.log(.signingKeyNew, ["key_id": "\(ids)"])
        case .retired: logger.log(.signingKeyRetired, ["key_id": "\(ids)"])
        case .forgotten: logger.log(.signingKeyForgotten, ["key_id": "\(ids)"])
        // Their ids are not Apple's, and may be anything.
        case .disbelieved:
            keysDisbelieved.withLockedValue { $0 = now }
            logger.log(.signingKeysDisbelieved, ["count": "\(keyIDs.count)"])
        }
    }

    /// When a key in the database was last found that siwatch had not written; nil if none was since the start.
    package var keysDisbelievedAt: Timestamp? { keysDisbelieved.withLockedValue(\.self) }

    package func signingKeysFailed(_ reason: String) {
        logger.log(.signingKeysFailed, ["error": "\(reason)"])
    }

    package func signingKeysNotKept(_ reason: String) {
        logger.log(.signingKeysNotKept, ["error": "\(reason)"])
    }
}

/// Outcomes of a check of a token that Apple had not accepted before.
enum FirstCheckLabel: String, CaseIterable {
    case accepted, rejected
}

extension Logger.Metadata {
    fileprivate func adding(_ news: AppleAbsence.News) -> Self {
        merging(["count": "\(news.failures)", "duration_ms": "\(news.lasts.milliseconds)"]) { _, new in new }
    }

    fileprivate func adding(error: String) -> Self {
        merging(["error": "\(error)"]) { _, new in new }
    }
}
