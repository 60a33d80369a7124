// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import CredentialMonitor
import Logging
import NIOConcurrencyHelpers

/// Asks Apple about each client of the running siwatch: once after the start, and once after a reload with another key.
///
/// The answers are for people. They move no state, no breaker, no pause and no proof of a rejection, because nobody has published how this
/// grant and the others hang together. They are kept in memory only, so that a start also sees a key that was revoked at Apple.
final class KeyTrials: Sendable {
    private let apps: [WatchedApp]
    private let clock: WallClock
    private let logger: Logger
    private let known = NIOLockedValueBox<[String: Known]>([:])
    /// Until when an app asks nothing more, because Apple has asked for fewer questions.
    private let rests = NIOLockedValueBox<[String: ContinuousClock.Instant]>([:])

    private struct Known {
        var identity: ClientIdentity
        var trial: KeyTrial
        var askedAt: ContinuousClock.Instant
    }

    /// How soon to ask again about a client that Apple has not accepted.
    private static let patience = Duration.minutes(10)

    init(_ apps: [WatchedApp], _ context: DaemonContext) {
        self.apps = apps
        clock = context.clock
        logger = context.logger
    }

    /// The last answers, by app and client. Another replica has those of the apps that it owns.
    var all: [KeyTrial] {
        let owned = Set(apps.filter(\.isAsked).map(\.atWork.name))
        return known.withLockedValue { $0.values.map(\.trial) }.filter { owned.contains($0.app) }
            .sorted { ($0.app, $0.clientID) < ($1.app, $1.clientID) }
    }

    /// Asks about one client at a time, within the limits of its app.
    var service: Recurring { Recurring(every: .seconds(1), onFailure: { _ in }) { await self.askWhatIsDue() } }

    private func askWhatIsDue() async {
        for app in apps {
            for clientID in app.atWork.clientIDs.sorted() where isDue(clientID, of: app) {
                if let rest = rests.withLockedValue({ $0[app.atWork.name] }), rest > .now { break }
                guard !Task.isCancelled, app.atWork.budget.take(upTo: 1, at: clock.now) == 1 else { break }
                await ask(clientID, of: app)
            }
        }
    }

    private func isDue(_ clientID: String, of app: WatchedApp) -> Bool {
        guard let last = known.withLockedValue({ $0[clientID] }), last.identity == app.secrets.identity(of: clientID) else { return true }
        return last.trial.verdict != .accepted && ContinuousClock.now - last.askedAt >= Self.patience
    }

    private func ask(_ clientID: String, of app: WatchedApp) async {
        let start = clock.now
        let response = await app.endpoint.prove(clientID)
        // A question that the end of the process cuts short says nothing of Apple.
        guard !Task.isCancelled else { return }
        let (answer, identity) = (response.answer.verdict, response.identity)
        if case .throttled = response.answer { rests.withLockedValue { $0[app.atWork.name] = .now + Self.patience } }
        let earlier = known.withLockedValue { $0[clientID] }.flatMap { $0.identity == identity ? $0.trial : nil }
        // Without an answer, the last one stands.
        let (verdict, words) =
            if let earlier, answer.verdict == .unanswered { (earlier.verdict, earlier.words) } else { (answer.verdict, answer.words) }
        // The key's id at Apple stands before the fingerprint of its content.
        let trial = KeyTrial(
            app: app.atWork.name,
            clientID: clientID,
            teamID: identity.teamID ?? "",
            keyID: String(identity.keyID.prefix { $0 != " " }),
            verdict: verdict,
            words: words,
            since: earlier?.verdict == verdict ? earlier?.since ?? start : start,
            askedAt: start
        )
        known.withLockedValue { $0[clientID] = Known(identity: identity, trial: trial, askedAt: .now) }
        if earlier?.verdict != verdict { log(trial) }
    }

    private func log(_ trial: KeyTrial) {
        let metadata: Logger.Metadata = ["app": "\(trial.app)", "client_id": "\(trial.clientID)"]
        switch trial.verdict {
        case .accepted: logger.log(.clientAccepted, metadata)
        case .refused: logger.log(.clientRefused, metadata.merging(["error": "\(trial.words ?? "")"]) { $1 })
        // Checks and sign-ins tell of an Apple that does not answer.
        case .unanswered: break
        }
    }
}

/// Apple's last answer to whether the key, the team and the id of a client belong together.
struct KeyTrial: Encodable, Equatable {
    var app: String
    var clientID: String
    var teamID: String
    var keyID: String
    var verdict: Verdict
    /// Apple's words, or why there was no answer; nil if Apple has accepted the client.
    var words: String?
    /// Since when the verdict on this key is the same.
    var since: Timestamp
    var askedAt: Timestamp

    enum Verdict: String, Encodable {
        case accepted, refused
        /// Apple gave no usable answer, so nothing is known.
        case unanswered
        var words: String { self == .refused ? "not accepted" : rawValue }
    }

    /// If Apple refuses the client.
    var sentence: String {
        let refused = "\(app.printable): Apple does not accept \(clientID.printable) with the key \(keyID) of the team \(teamID)"
        return "\(refused) since \(since.text) (\((words ?? "").printable))"
    }

    static let remedy = "sudo -u siwatch siwatch doctor --online says what to compare at Apple"
}

extension EndpointAnswer<ClientNews> {
    var verdict: (verdict: KeyTrial.Verdict, words: String?) {
        switch self {
        case .news(.accepted): (.accepted, nil)
        case .misconfigured(let words): (.refused, words)
        case .throttled: (.unanswered, "429")
        case .unavailable(let reason, _, _): (.unanswered, reason)
        }
    }
}
