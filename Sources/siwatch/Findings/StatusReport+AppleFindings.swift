// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// What Apple refuses, and what nobody hears of it.
extension StatusReport {
    @FindingList var ofApple: [Finding] {
        ofClock
        tables.refusedClients.map { client in
            Finding(client.isIdle ? .degraded : .down, client.sentence, remedy: RefusedClient.remedy, runbook: .appPaused)
        }
        ofTrials
        // People wait at the sign-in page for these codes.
        let isWaitedFor = tables.backlog.waitingGrants.oldestCode.map { $0 < at.advanced(by: .seconds(-30)) } ?? false
        (daemon?.absences ?? []).map { absence in
            let kinds = absence.kinds.map(\.printable).joined(separator: ", ")
            let sentence = "\(absence.app.printable): Apple gives no usable answer since \(absence.since.text)"
            let requests = absence.failures.counted("request")
            return Finding(isWaitedFor ? .down : .degraded, "\(sentence): \(kinds), \(requests)", runbook: .appleErrors)
        }
        tables.apps.compactMap { app in
            app.pausedAt.map { at in
                let remedy = "siwatch resume \(app.app.shellQuoted.printable)"
                let sentence = "\(app.app.printable): an operator has paused it since \(at.text)"
                return Finding(.degraded, sentence, remedy: remedy, runbook: .appPaused)
            }
        }
        unprovenClients.map { client in
            let last = client.validAt.map { "none since \($0.text)" } ?? "none yet"
            let tokens = "no token of \(client.clientID.printable) within an interval (\(last))"
            let severity = client.validAt == nil ? Finding.Severity.note : .degraded
            return Finding(severity, "Apple has accepted \(tokens): its rejections wait", runbook: .rejectionsPending)
        }
        ofSigningKeys
        ofSilence
        (daemon?.checks ?? []).flatMap(findings(of:))
    }

    @FindingList private var ofClock: [Finding] {
        if let skew = daemon?.appleClockSkew, abs(skew) > ClockTrust.noticedSkew.milliseconds {
            Finding(.degraded, Self.sentence(skew: skew), remedy: "put NTP right", runbook: .clockSkew)
        } else if daemon?.isClockHeld == true {
            Finding(.note, "nothing is deleted by age, because Apple has not confirmed the clock", runbook: .clockSkew)
        }
    }

    /// - Parameter skew: how far Apple's clock is ahead, in milliseconds.
    static func sentence(skew: Int64) -> String {
        let seconds = Double(abs(skew) / 100) / 10
        return "the clock that siwatch goes by is \(seconds) s \(skew > 0 ? "behind" : "ahead of") Apple's"
    }

    /// Clients that Apple refused when siwatch asked about their key. Codes and checks tell by themselves what Apple says to them.
    private var ofTrials: [Finding] {
        (daemon?.keyTrials ?? []).filter { $0.verdict == .refused }.compactMap { trial in
            guard !tables.refusedClients.contains(where: { $0.clientID == trial.clientID }) else { return nil }
            // The question is new after each start, and each client is checked once a day.
            let isContradicted = (acceptedAt(trial.clientID) ?? .earliest) > trial.since.advanced(by: .hours(-25))
            let more = isContradicted ? ", and has accepted a token of it within a day" : ""
            let severity = isContradicted ? Finding.Severity.note : .degraded
            return Finding(severity, trial.sentence + more, remedy: KeyTrial.remedy, runbook: .appPaused)
        }
    }

    @FindingList private var ofSigningKeys: [Finding] {
        // Those of the tables may be older than what the process has fetched since its start.
        let isNew = daemon.map { daemon in daemon.tablesReadAt.map { $0 < daemon.startedAt.advanced(by: .seconds(10)) } ?? true } ?? false
        if tables.signingKeys == 0, isRunning, !isNew {
            let sentence = "siwatch knows none of Apple's keys, so notifications and codes wait"
            Finding(.down, sentence, runbook: .signingKeysMissing)
        } else if let fetchedAt = tables.signingKeysFetchedAt, isRunning, fetchedAt < at.advanced(by: .hours(-6)) {
            Finding(.degraded, "siwatch last fetched Apple's keys \(ago(fetchedAt))", runbook: .appleErrors)
        }
        if let last = daemon?.keysDisbelievedAt, last > at.advanced(by: .days(-1)) {
            let sentence = "somebody wrote signing keys into the database, which siwatch did not believe and deleted, the last \(ago(last))"
            Finding(.degraded, sentence, runbook: .signingKeyPlanted)
        }
    }

    /// That the way of Apple's notifications is closed, or that none has come for ten times as long as was usual.
    private var ofSilence: [Finding] {
        let runbook = Runbook.notificationsLate
        if let obstacle = daemon?.intakeObstacle {
            let sentence = "what Apple posts does not arrive: \(obstacle)"
            return [Finding(.degraded, sentence, remedy: "siwatch doctor --intake URL says more", runbook: runbook)]
        }
        let times = tables.notifications
        guard let newest = times.first, let oldest = times.last, times.count > 9 else { return [] }
        let usual = oldest.duration(to: newest) / (times.count - 1)
        guard newest.duration(to: at) > max(.hours(24), usual * 10) else { return [] }
        let sentence = "Apple's last notification came \(ago(newest)), where one each \(usual.text) was usual"
        return [Finding(.degraded, sentence, runbook: runbook)]
    }

    @FindingList private func findings(of checks: AppChecks) -> [Finding] {
        let app = checks.app.printable
        let isKnown = breakers.contains { $0.app == checks.app && ($0.isOpen || isGreater($0.mutedUntil, than: at)) }
        if checks.isMassRejection, !isKnown {
            let sentence = "\(app): Apple rejected \(checks.rejected) of \(checks.answered) tokens within an hour"
            let remedy = "siwatch pause \(checks.app.shellQuoted.printable), unless an import explains it"
            Finding(.down, sentence, remedy: remedy, runbook: .massRejection)
        }
        if checks.isThrottled {
            let sentence = "\(app): Apple answered 429 to \(checks.throttled) of \(checks.asked) checks within three hours"
            Finding(.degraded, sentence, runbook: .checksLate)
        }
    }

    @FindingList var ofRejections: [Finding] {
        breakers.filter(\.isOpen).map {
            Finding(.degraded, "breaker \($0.app.printable): \($0.state)", runbook: .rejectionsPending)
        }
        tables.apps.flatMap(rejections(of:))
    }

    @FindingList private func rejections(of app: AppStatus) -> [Finding] {
        let name = app.app.printable
        let list = "siwatch rejected \(app.app.shellQuoted.printable) lists them"
        if app.pending > 0 {
            let sentence = "\(name): \(app.pending.counted("rejection waits", "rejections wait")) to be believed"
            Finding(.note, sentence, runbook: .rejectionsPending)
        }
        if app.missed > 0 {
            let percent = Int((Double(app.missed) / Double(max(app.admitted, 1)) * 100).rounded())
            let share = "\(app.missed) of \(app.admitted) revocations (\(percent) %)"
            let sentence = "\(name): \(share) came without a notification; is the endpoint registered at Apple?"
            Finding(.note, sentence, runbook: .notificationsLate)
        }
        if app.neverAccepted > 0 {
            let sentence = "\(name): Apple rejects \(app.neverAccepted.counted("token")) that it has never accepted; \(list)"
            Finding(.note, sentence, runbook: .tokensUnusable)
        }
        if app.foreignTokens > 0 {
            let tokens = app.foreignTokens.counted("token as that of another user", "tokens as those of other users")
            Finding(.note, "\(name): Apple accepts \(tokens); \(list)")
        }
        if app.unproven > 0 {
            // Few users come back, and an app without tokens proves none of them.
            let isProving = tables.clients.contains { $0.app == app.app && acceptedAt($0.clientID) != nil }
            let isMuch = app.unproven > 10 && app.unproven * 5 > app.ended && isProving
            let percent = app.unproven * 100 / max(app.ended, 1)
            let back = "\(app.unproven) (\(percent) %) signed in again, and no token proves it"
            let sentence = "\(name): Apple has ended the sign-ins of \(app.ended.counted("user")); \(back)"
            let remedy = "look who may tell sign-ins, and let backends tell each with its code or token"
            Finding(isMuch ? .degraded : .note, sentence, remedy: remedy)
        }
        let authorized = tables.credentials.first { $0.app == app.app && $0.state == CredentialState.authorized.rawValue }?.count ?? 0
        if app.unverified > 4, app.unverified > authorized / 20 {
            let sentence = "\(name): Apple has given no good answer about \(app.unverified) credentials for three intervals"
            Finding(.degraded, sentence, runbook: .credentialsUnverified)
        }
        if let overdue = tables.overdue[app.app], overdue > 0, app.pausedAt == nil {
            let more = overdue == Overview.mostOverdue ? " or more" : ""
            let sentence = "\(name): \(overdue)\(more) \(overdue == 1 ? "check" : "checks") overdue by a minute or more"
            // A moment's backlog of a small app is no trouble.
            let isMuch = overdue * 20 > authorized && (overdue > 20 || overdue * 2 > authorized)
            Finding(isMuch ? .degraded : .note, sentence, runbook: .checksLate)
        }
    }
}

extension RefusedClient {
    /// What to do, as the end of a sentence.
    static let remedy = """
        put the key or its id right, then sudo -u siwatch siwatch doctor --before-start, then sudo systemctl reload siwatch; team_id or a client id needs a restart
        """

    /// Whether nobody waits for the client. It may be right by now: only the next sign-in or check tells.
    var isIdle: Bool { codes + checks + revocations == 0 }

    /// What is wrong, and what work waits for the client.
    var sentence: String {
        let kinds = [(codes, "code"), (checks, "due check"), (revocations, "revocation")]
        let waiting = kinds.filter { $0.0 > 0 }.map { count, what in
            count < Overview.mostWaiting ? count.counted(what) : "\(count) or more \(what)s"
        }
        let refused =
            "\(app.printable): Apple refuses the client \(clientID.printable) since \(refusal.since.text) (\(refusal.word.printable))"
        if isIdle { return "\(refused), and was last asked at \(refusal.at.text); nothing waits, and the next sign-in or check asks again" }
        return "\(refused); waiting: \(waiting.joined(separator: ", "))"
    }
}

extension ClientRefusal {
    /// For people, in a place that already names the client.
    var words: String { "Apple refuses the client since \(since.text) (\(word.printable))" }
}
