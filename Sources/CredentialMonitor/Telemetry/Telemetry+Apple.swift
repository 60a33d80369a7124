// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import Metrics
import NIOConcurrencyHelpers

extension Telemetry {
    /// Counts and times one check at Apple.
    func timed<Answer>(_ check: () async -> Answer) async -> Answer {
        inFlight.increment()
        let start = ContinuousClock.now
        defer {
            inFlight.decrement()
            refreshDuration.record((ContinuousClock.now - start).inSeconds)
        }
        return await check()
    }

    /// - Parameter isFirst: whether Apple had not accepted the token before.
    func refreshAnswered(_ app: String, _ credential: CredentialID, _ answer: EndpointAnswer<RefreshNews>, isFirst: Bool = false) {
        switch answer {
        case .news(.valid): if isFirst { count(.firstChecks, ["app": app, "outcome": "accepted"]) }
        case .news(.rejected): if isFirst { count(.firstChecks, ["app": app, "outcome": "rejected"]) }
        case .news(.unnamed): break
        case .news(.ambiguous(let detail)): log(.answerAmbiguous, metadata(app, credential).adding(error: detail))
        case .news(.anotherUser): log(.answerAmbiguous, metadata(app, credential).adding(error: "id_token of another user"))
        case .misconfigured, .throttled, .unavailable: answered(app, answer, metadata(app, credential))
        }
    }

    func answered<News>(_ app: String, _ answer: EndpointAnswer<News>, _ subject: @autoclosure () -> Logger.Metadata) {
        switch answer {
        case .news, .misconfigured: break
        case .throttled: log(.throttled, ["app": "\(app)"])
        case .unavailable(let detail, _, _): log(.answerUnavailable, subject().adding(error: detail))
        }
    }

    func appleFailed(_ app: String, _ lane: AskingLane, _ kind: String, at now: Timestamp) {
        guard let news = absence.failed(app, lane, kind, at: now) else { return }
        log(.appleUnreachable, news.metadata.merging(["app": "\(app)", "error": "\(kind)"]) { $1 })
    }

    func appleAnswered(_ app: String, _ lane: AskingLane, at now: Timestamp) {
        guard let news = absence.answered(app, lane, at: now) else { return }
        log(.appleReachable, news.metadata.merging(["app": "\(app)"]) { $1 })
    }

    package func absences(at now: Timestamp) -> [AppAbsence] { absence.told(at: now) }

    /// Apple's last answer to each lane of each app, by app and lane.
    package var lastAnswers: [LaneAnswer] {
        answers.withLockedValue { $0.values.flatMap(\.values) }.sorted { ($0.app, $0.lane.rawValue) < ($1.app, $1.lane.rawValue) }
    }

    func answered(_ kind: String, at now: Timestamp, of app: String, _ lane: AskingLane) {
        answers.withLockedValue { $0[app, default: [:]][lane] = LaneAnswer(app: app, lane: lane, at: now, kind: kind) }
    }

    func metadata(_ app: String, _ credential: CredentialID) -> Logger.Metadata {
        ["app": "\(app)", "client_id": "\(credential.clientID)", "user": "\(pseudonym(credential.userID))"]
    }

    func codeRejected(_ work: ClaimedCode, _ reason: GrantRejection, detail: String?) {
        var metadata: Logger.Metadata = ["reason": "\(reason.rawValue)"]
        if let app = work.app { metadata["app"] = "\(app)" }
        if let clientID = work.content?.clientID, clientID.looksLikeClientID { metadata["client_id"] = "\(clientID)" }
        if let userID = work.content?.userID { metadata["user"] = "\(pseudonym(userID))" }
        if let detail { metadata["error"] = "\(detail)" }
        log(.codeRejected, metadata)
    }

    func codeTokenKept(_ clientID: String, because reason: TokenKept) {
        log(.codeTokenKept, ["client_id": "\(clientID)", "reason": "\(reason.rawValue)"], at: reason.isMistake ? .warning : nil)
    }

    func appPaused(_ app: String, client: String, error: String, pause: Duration) {
        checks(of: app, arePaused: true, because: .blame)
        log(.appPaused, ["app": "\(app)", "client_id": "\(client)", "error": "\(error)", "duration_ms": "\(pause.milliseconds)"])
    }

    package func appUnpaused(_ app: String) { checks(of: app, arePaused: false, because: .blame) }

    /// Notes a reason to pause an app's checks. The gauge is 1 for either.
    func checks(of app: String, arePaused: Bool, because reason: PauseReason) {
        let isPaused = pauses.withLockedValue { pauses in
            if arePaused { pauses[app, default: []].insert(reason) } else { pauses[app]?.remove(reason) }
            return pauses[app]?.isEmpty == false
        }
        gauge(.appPaused, isPaused ? 1 : 0, ["app": app])
    }

    /// - Parameter isAnyBlamed: whether another client of the app is still blamed.
    func clientResumed(_ app: String, client: String, isAnyBlamed: Bool) {
        if !isAnyBlamed { appUnpaused(app) }
        log(.appResumed, ["app": "\(app)", "client_id": "\(client)"])
    }

    func breakerOpened(_ app: String, _ breaker: RejectionBreaker) {
        gauge(.breakerOpen, 1, ["app": app])
        let causes = breaker.causes.map(\.rawValue).joined(separator: ", ")
        var metadata: Logger.Metadata = ["app": "\(app)", "reason": "\(causes)", "count": "\(breaker.judged.rejections)"]
        if !breaker.blamedClients.isEmpty {
            metadata["client_id"] = "\(breaker.blamedClients.sorted().joined(separator: ", "))"
        } else if !breaker.rejectedCanaries.isEmpty {
            metadata["client_id"] = "\(Set(breaker.rejectedCanaries.map(\.clientID)).sorted().joined(separator: ", "))"
            metadata["user"] = "\(breaker.rejectedCanaries.map { pseudonym($0.userID) }.sorted().joined(separator: ", "))"
        }
        log(.breakerOpened, metadata)
    }

    func breakerClosed(_ app: String) {
        gauge(.breakerOpen, 0, ["app": app])
        log(.breakerClosed, ["app": "\(app)"])
    }

    package func canaryUnknown(_ app: String, userID: String) {
        log(.canaryUnknown, ["app": "\(app)", "user": "\(pseudonym(userID))"])
    }

    package func notificationsMissed(_ missed: [String: Int]) {
        for (app, number) in missed { count(.notificationsMissed, ["app": app], by: number) }
    }

    package func signingKeysRefreshed(count: Int, at time: Timestamp?) {
        gauge(.signingKeys, Double(count))
        if let time { gauge(.signingKeysLastRefresh, time.inSeconds) }
    }

    package func signingKeysChanged(_ change: SigningKeyChange, _ keyIDs: [String], at now: Timestamp) {
        count(.signingKeyChanges, ["change": change.rawValue], by: keyIDs.count)
        let ids: Logger.Metadata = ["key_id": "\(keyIDs.joined(separator: ", "))"]
        switch change {
        case .new: log(.signingKeyNew, ids)
        case .retired: log(.signingKeyRetired, ids)
        case .forgotten: log(.signingKeyForgotten, ids)
        // Their ids are not Apple's, and may be anything.
        case .disbelieved:
            keysDisbelieved.withLockedValue { $0 = now }
            log(.signingKeysDisbelieved, ["count": "\(keyIDs.count)"])
        }
    }

    /// When a key in the database was last found that siwatch had not written; nil if none was since the start.
    package var keysDisbelievedAt: Timestamp? { keysDisbelieved.withLockedValue(\.self) }
}

/// Why an app's checks are paused: Apple refuses a client of the app, or an operator wants it.
enum PauseReason {
    case blame, `operator`
}

package enum AskingLane: String, Sendable, Hashable, CaseIterable, Encodable {
    case checks, codes, revocations
}

package struct LaneAnswer: Sendable, Equatable, Encodable {
    package var app: String
    package var lane: AskingLane
    package var at: Timestamp
    /// `200`, `429`, Apple's word, what went wrong such as `status 503` or `timeout`, or `answered` for an answer about a token or a code.
    package var kind: String
}

extension Logger.Metadata {
    func adding(error: Any) -> Self { merging(["error": "\(error)"]) { $1 } }
}
