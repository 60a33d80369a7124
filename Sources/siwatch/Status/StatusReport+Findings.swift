// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

extension StatusReport {
    /// All that an operator should know, the worst first.
    var findings: [Finding] {
        let all = ofBackends + ofProcess + ofApple + ofQueues + ofRejections + ofConfiguration + ofHost
        return all.enumerated().sorted { ($1.element.severity, $0.offset) < ($0.element.severity, $1.offset) }.map(\.element)
    }

    var health: Health { Health(findings) }

    private var ofProcess: [Finding] {
        var findings: [Finding] = []
        if !isRunning {
            findings.append(
                Finding(
                    .down,
                    "no siwatch runs on this database",
                    remedy: "sudo systemctl start siwatch; journalctl -u siwatch says why it ended",
                    runbook: "siwatchdown"
                )
            )
        }
        if isSilent {
            let causes = "It stands still, cannot write, has another file open, or is no daemon (run --once, move)"
            findings.append(Finding(.down, "its last sign of life here: \(ago(aliveAt)). \(causes)", runbook: "siwatchnotready"))
        }
        findings += daemonSilence.map { [$0] } ?? []
        guard let daemon else { return findings }
        findings += daemon.troubles.map { trouble in
            let severity = ["starting", "stopping"].contains(trouble) ? Finding.Severity.degraded : .down
            return Finding(severity, "siwatch is not ready: \(trouble)", runbook: "siwatchnotready")
        }
        if let reason = daemon.tablesUnread {
            let figures = daemon.tablesReadAt.map { "the figures below are of \($0.text)" } ?? "there are no figures"
            findings.append(Finding(.down, "the database does not answer, so that \(figures): \(reason)", runbook: "siwatchnotready"))
        }
        if !daemon.reload.mistakes.isEmpty {
            let mistakes = daemon.reload.mistakes.joined(separator: "; ")
            findings.append(
                Finding(
                    .degraded,
                    "the configuration of \(daemon.reload.at.text) was not taken over: \(mistakes)",
                    remedy: "siwatch check, then sudo systemctl reload siwatch",
                    runbook: "siwatchreloadfailed"
                )
            )
        }
        if !daemon.reload.needsRestart.isEmpty {
            let keys = daemon.reload.needsRestart.map(\.printable).joined(separator: ", ")
            findings.append(Finding(.note, "new values of \(keys) wait for a restart"))
        }
        if daemon.isReplaced {
            findings.append(
                Finding(
                    .note,
                    "the program's file was replaced or removed, and version \(version) still runs",
                    remedy: "sudo systemctl restart siwatch"
                )
            )
        }
        return findings
    }

    private var ofBackends: [Finding] {
        let bug = "SQLite \(sqlite ?? "") has the WAL-reset bug: let backends set PRAGMA wal_autocheckpoint=0"
        let runbook = space?.isFull == true ? "siwatchstorefull" : "siwatchbackendslockedout"
        return (insertObstacle.map { [Finding(.down, "backends cannot insert: \($0)", runbook: runbook)] } ?? [])
            + (hasWALResetBug ? [Finding(.note, bug)] : [])
    }

    private var ofApple: [Finding] {
        var findings = ofClock + refusedClients.map { Finding(.down, $0.sentence, runbook: "siwatchapppaused") }
        findings += (daemon?.absences ?? []).map { absence in
            Finding(
                .degraded,
                "\(absence.app.printable): Apple gives no usable answer since \(absence.since.text): "
                    + "\(absence.kinds.map(\.printable).joined(separator: ", ")), \(absence.failures) requests",
                runbook: "siwatchappleerrors"
            )
        }
        findings += apps.compactMap { app in
            app.pausedAt.map { at in
                Finding(
                    .degraded,
                    "\(app.app.printable): an operator has paused it since \(at.text)",
                    remedy: "siwatch resume \(app.app.shellQuoted.printable)",
                    runbook: "siwatchapppaused"
                )
            }
        }
        findings += unprovenClients.map { client in
            let last = client.validAt.map { "none since \($0.text)" } ?? "none yet"
            return Finding(
                client.validAt == nil ? .note : .degraded,
                "Apple has accepted no token of \(client.clientID.printable) within an interval (\(last)): its rejections wait",
                runbook: "siwatchnothingaccepted"
            )
        }
        if signingKeys == 0, isRunning, daemon == nil || daemon?.tablesReadAt != nil {
            let sentence = "siwatch knows none of Apple's keys, so notifications and codes wait"
            findings.append(Finding(.down, sentence, runbook: "siwatchsigningkeysmissing"))
        } else if let at = signingKeysFetchedAt, isRunning, at < self.at.advanced(by: .hours(-6)) {
            findings.append(Finding(.degraded, "siwatch last fetched Apple's keys \(ago(at))", runbook: "siwatchsigningkeysstale"))
        }
        return findings
    }

    /// Apple blames the client for what a wrong clock has dated.
    private var ofClock: [Finding] {
        if let skew = daemon?.appleClockSkew, abs(skew) > 30_000 {
            let isBlamed = abs(skew) > 60_000 && !refusedClients.isEmpty
            let severity = isBlamed ? Finding.Severity.down : .degraded
            return [Finding(severity, Self.sentence(skew: skew), remedy: "put NTP right", runbook: "siwatchclockskew")]
        }
        guard daemon?.isClockHeld == true else { return [] }
        return [Finding(.note, "nothing is deleted by age, because Apple has not confirmed the clock", runbook: "siwatchclockskew")]
    }

    /// - Parameter skew: how far Apple's clock is ahead, in milliseconds.
    static func sentence(skew: Int64) -> String {
        let seconds = Double(abs(skew) / 100) / 10
        return "the clock that siwatch goes by is \(seconds) s \(skew > 0 ? "behind" : "ahead of") Apple's"
    }

    private var ofQueues: [Finding] {
        var findings: [Finding] = []
        if waitingGrants.codesEnding > 0 {
            let sentence = "\(waitingGrants.codesEnding) codes end within a minute, and their users cannot sign in"
            findings.append(Finding(.down, sentence, runbook: "siwatchcodesexpired"))
        }
        let oldest = queues.first { $0.queue == "notification" }?.oldest.map(Timestamp.init(milliseconds:))
        if let oldest, oldest < at.advanced(by: .minutes(-15)) {
            findings.append(
                Finding(.down, "the oldest notification waits for \(oldest.duration(to: at).text)", runbook: "siwatchnotificationswaiting")
            )
        }
        findings += apps.map(BrakeReport.init).filter { $0.setAt != nil }.map { Finding(.down, $0.text, runbook: "siwatchrevocationsheld") }
        findings += waitingGrants.reasons(at: at).map { Finding($0.isTrouble ? .degraded : .note, $0.text, runbook: $0.runbook) }
        return findings + ofRevocations
    }

    private var ofRevocations: [Finding] {
        let waiting = waitingRevocations
        guard waiting.requests > 0 else { return [] }
        var line = "\(waiting.requests) requests to revoke wait, with \(waiting.tokens) tokens at work"
        if let oldest = waiting.oldest { line += ", the oldest for \(oldest.duration(to: at).text)" }
        let isOld = waiting.oldest.map { $0 < at.advanced(by: .hours(-1)) } ?? false
        var findings = [Finding(isOld ? .degraded : .note, line, runbook: isOld ? "siwatchrevocationsunproved" : nil)]
        if waiting.stillAccepted > 0 {
            let sentence = "Apple still accepts \(waiting.stillAccepted) tokens that it was asked to revoke"
            findings.append(Finding(.note, sentence, runbook: "siwatchrevocationsunproved"))
        }
        if waiting.unbelieved > 0 {
            let sentence = "Apple rejected \(waiting.unbelieved) tokens before they were revoked, which is not believed yet"
            findings.append(Finding(.note, sentence))
        }
        return findings
    }

    private var ofRejections: [Finding] {
        var findings = breakers.filter(\.isOpen).map { Finding(.degraded, "breaker \($0.text)", runbook: "siwatchbreakeropen") }
        for app in apps {
            let (name, rejections) = (app.app.printable, app.rejections)
            if let pending = rejections?.pending, pending > 0 {
                findings.append(Finding(.note, "\(name): \(pending) rejections wait to be believed", runbook: "siwatchrejectionspending"))
            }
            if let rejections, rejections.withoutNotification > 0 {
                let percent = Int((Double(rejections.withoutNotification) / Double(max(rejections.admitted, 1)) * 100).rounded())
                findings.append(
                    Finding(
                        .note,
                        "\(name): \(rejections.withoutNotification) of \(rejections.admitted) revocations (\(percent) %) "
                            + "came without a notification; is the endpoint registered at Apple?",
                        runbook: "siwatchnotificationsmissed"
                    )
                )
            }
            let list = "siwatch unverified --app \(name) lists them"
            if app.neverAccepted > 0 {
                let sentence = "\(name): Apple rejects \(app.neverAccepted) tokens that it has never accepted; \(list)"
                findings.append(Finding(.note, sentence, runbook: "siwatchtokensneveraccepted"))
            }
            if app.foreignTokens > 0 {
                findings.append(Finding(.note, "\(name): Apple accepts \(app.foreignTokens) tokens as those of other users; \(list)"))
            }
            if let overdue = overdue[app.app], overdue > 0, app.pausedAt == nil {
                let more = overdue == mostOverdueCounted ? " or more" : ""
                let sentence = "\(name): \(overdue)\(more) checks overdue by a minute or more"
                let authorized = credentials.first { $0.app == app.app && $0.state == CredentialState.authorized.rawValue }?.count ?? 0
                // A moment's backlog of a small app is no trouble.
                let isMuch = overdue * 20 > authorized && (overdue > 20 || overdue * 2 > authorized)
                findings.append(Finding(isMuch ? .degraded : .note, sentence, runbook: "siwatchvalidationoverdue"))
            }
        }
        return findings
    }

    private var ofConfiguration: [Finding] {
        rounds.filter { !$0.round.fits }.map { Finding(.degraded, "\($0)", runbook: "siwatchchecksdonotfit") }
            + unknownCanaries.map { Finding(.degraded, "\($0)") } + otherTeams.map { Finding(.degraded, "\($0)") }
    }

    private var ofHost: [Finding] {
        let warning = space?.warning.map { "database.path: \($0)" }
        var findings = warning.map { [Finding(.degraded, $0, runbook: "siwatchstorefull")] } ?? []
        if let backedUpAt, backedUpAt < at.advanced(by: .hours(-48)) {
            findings.append(Finding(.degraded, "siwatch backup last wrote a copy \(ago(backedUpAt))", runbook: "siwatchbackupold"))
        }
        return findings
    }

    private var space: DiskSpace? { freeSpace.map(DiskSpace.init(free:)) }

    /// How long ago a time was, for people.
    func ago(_ time: Timestamp?) -> String {
        time.map { "\($0.duration(to: at).text) ago" } ?? "never"
    }
}
