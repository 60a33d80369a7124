// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import SQLiteStore

extension StatusReport {
    /// All that an operator should know, the worst first.
    var findings: [Finding] {
        let all =
            (ofBackends + ofProcess).sayingCauseOnce + ofApple + ofQueues + ofRefusals + ofDeliveries + ofAbandonedDeliveries
            + ofDifferentDeliveries + ofRejections + ofConfiguration + ofHost
        return all.enumerated().sorted { ($1.element.severity, $0.offset) < ($0.element.severity, $1.offset) }.map(\.element)
    }

    var health: Health { Health(findings) }

    private var ofProcess: [Finding] {
        var findings: [Finding] = []
        if !isRunning {
            let remedy = "journalctl -u siwatch says why it ended; sudo systemctl start siwatch, once siwatch check is content"
            findings.append(Finding(.down, "no siwatch runs on this database", remedy: remedy, runbook: "siwatchdown"))
        }
        if isSilent {
            let causes = "It stands still, cannot write, has another file open, or is no daemon (run --once, move)"
            findings.append(Finding(.down, "its last sign of life here: \(ago(aliveAt)). \(causes)", runbook: "siwatchnotready"))
        }
        if daemon == nil, isRunning, daemonSilence == nil {
            let sentence = "siwatch runs and cannot be asked, so the tables alone speak"
            // A server is asked from hosts without a siwatch too.
            let severity = postgresql == nil ? Finding.Severity.degraded : .note
            findings.append(Finding(severity, ([sentence] + barriers).joined(separator: "; "), runbook: "siwatchnotready"))
        }
        findings += daemonSilence.map { [$0] } ?? []
        findings += lanesWithoutOwner.map { lane in
            Finding(.down, "no siwatch owns the lane \(lane.printable)", runbook: "siwatchlanewithoutowner")
        }
        guard let daemon else { return findings }
        findings += daemon.troubles.map { trouble in
            let sentence = "siwatch is not ready: \(trouble)"
            let isPhase = ["starting", "stopping"].contains(trouble)
            return isPhase ? Finding(.degraded, sentence, runbook: "siwatchnotready") : down(sentence, runbook: "siwatchnotready")
        }
        if let reason = daemon.tablesUnread {
            let figures = daemon.tablesReadAt.map { "the figures are of \($0.text)" } ?? "there are no figures"
            findings.append(Finding(.down, "the database does not answer: \(reason); \(figures)", runbook: "siwatchnotready"))
        }
        if !daemon.reload.mistakes.isEmpty {
            let mistakes = daemon.reload.mistakes.joined(separator: "; ")
            findings.append(
                Finding(
                    .degraded,
                    "the configuration of \(daemon.reload.at.text) was not taken over: \(mistakes)",
                    remedy: "sudo -u siwatch siwatch check, then sudo systemctl reload siwatch",
                    runbook: "siwatchreloadfailed"
                )
            )
        }
        if let trouble = daemon.keyFileTrouble {
            let sentence = "siwatch goes on with the sealing key of its start, and would not start again: \(trouble)"
            findings.append(
                Finding(.degraded, sentence, remedy: "make the key file as it was", runbook: "siwatchfinding")
            )
        }
        if let lost = daemon.lostLines, lost.lastAt > at.advanced(by: .days(-1)) {
            findings.append(
                Finding(
                    lost.isOver ? .note : .degraded,
                    "the log has lost \(lost.count.counted("line")) since \(lost.firstAt.text), the last \(ago(lost.lastAt))",
                    remedy: lost.isOver ? nil : "df shows whether its disk is full",
                    runbook: "siwatchloglost"
                )
            )
        }
        if let open = daemon.openFiles, let most = daemon.mostOpenFiles, open * 5 > most * 4 {
            let sentence = "\(open) of \(most) file descriptors are open"
            findings.append(
                Finding(.degraded, sentence, remedy: "a higher LimitNOFILE= in a drop-in of the unit", runbook: "siwatchfiledescriptors")
            )
        }
        if !daemon.reload.needsRestart.isEmpty {
            let keys = daemon.reload.needsRestart.map(\.printable).joined(separator: ", ")
            findings.append(Finding(.note, "new values of \(keys) wait for a restart"))
        }
        if daemon.isReplaced {
            let sentence = "the program's file was replaced or removed, and version \(version) still runs"
            let remedy = "no restart before sudo -u siwatch siwatch check is content"
            switch daemon.replacementObstacle {
            case nil: findings.append(Finding(.note, sentence))
            case ""?: findings.append(Finding(.note, sentence, remedy: "sudo systemctl restart siwatch"))
            case let obstacle?:
                findings.append(Finding(.degraded, "\(sentence); what stands there would not start: \(obstacle)", remedy: remedy))
            }
        }
        return findings
    }

    /// The apps that no siwatch on the server asks Apple about, and `maintenance` if none keeps house. A lane changes its owner within seconds.
    private var lanesWithoutOwner: [String] {
        let living = (replicas ?? []).filter { $0.isLiving(at: at) }
        guard let oldest = living.map(\.startedAt).min(), oldest < at.advanced(by: .minutes(-2)) else { return [] }
        let owned = Set(living.flatMap(\.apps))
        return rounds.map(\.app).filter { !owned.contains($0) } + (living.contains(where: \.keepsHouse) ? [] : ["maintenance"])
    }

    private var ofApple: [Finding] {
        var findings = ofClock
        findings += refusedClients.map { client in
            Finding(client.isIdle ? .degraded : .down, client.sentence, remedy: RefusedClient.remedy, runbook: "siwatchapppaused")
        }
        findings += ofTrials
        // People wait at the sign-in page for these codes.
        let isWaitedFor = waitingGrants.oldestCode.map { $0 < at.advanced(by: .seconds(-30)) } ?? false
        findings += (daemon?.absences ?? []).map { absence in
            Finding(
                isWaitedFor ? .down : .degraded,
                "\(absence.app.printable): Apple gives no usable answer since \(absence.since.text): "
                    + "\(absence.kinds.map(\.printable).joined(separator: ", ")), \(absence.failures.counted("request"))",
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
        // Those of the tables may be older than what the process has fetched since its start.
        let isNew = daemon.map { daemon in daemon.tablesReadAt.map { $0 < daemon.startedAt.advanced(by: .seconds(10)) } ?? true } ?? false
        if signingKeys == 0, isRunning, !isNew {
            let sentence = "siwatch knows none of Apple's keys, so notifications and codes wait"
            findings.append(Finding(.down, sentence, runbook: "siwatchsigningkeysmissing"))
        } else if let at = signingKeysFetchedAt, isRunning, at < self.at.advanced(by: .hours(-6)) {
            findings.append(Finding(.degraded, "siwatch last fetched Apple's keys \(ago(at))", runbook: "siwatchsigningkeysstale"))
        }
        if let at = daemon?.keysDisbelievedAt, at > self.at.advanced(by: .days(-1)) {
            let sentence = "somebody wrote signing keys into the database, which siwatch did not believe and deleted, the last \(ago(at))"
            findings.append(Finding(.degraded, sentence, runbook: "siwatchsigningkeyplanted"))
        }
        return findings + ofSilence + ofChecks
    }

    /// Clients that Apple refused when siwatch asked about their key. Codes and checks tell by themselves what Apple says to them.
    private var ofTrials: [Finding] {
        (daemon?.keyTrials ?? []).filter { $0.verdict == .refused }.compactMap { trial in
            guard !refusedClients.contains(where: { $0.clientID == trial.clientID }) else { return nil }
            // The question is new after each start, and each client is checked once a day.
            let isContradicted = (acceptedAt[trial.clientID] ?? .earliest) > trial.since.advanced(by: .hours(-25))
            return Finding(
                isContradicted ? .note : .degraded,
                isContradicted ? "\(trial.sentence), and has accepted a token of it within a day" : trial.sentence,
                remedy: KeyTrial.remedy,
                runbook: "siwatchapppaused"
            )
        }
    }

    private var ofChecks: [Finding] {
        (daemon?.checks ?? []).flatMap { checks -> [Finding] in
            let app = checks.app.printable
            let isKnown = breakers.contains { $0.app == checks.app && ($0.isOpen || isGreater($0.mutedUntil, than: at)) }
            let rejected = "\(app): Apple rejected \(checks.rejected) of \(checks.answered) tokens within an hour"
            let throttled = "\(app): Apple answered 429 to \(checks.throttled) of \(checks.asked) checks within three hours"
            return
                (checks.isMassRejection && !isKnown
                ? [
                    Finding(
                        .down,
                        rejected,
                        remedy: "siwatch pause \(checks.app.shellQuoted.printable), unless an import explains it",
                        runbook: "siwatchmassrejection"
                    )
                ] : []) + (checks.isThrottled ? [Finding(.degraded, throttled, runbook: "siwatchthrottled")] : [])
        }
    }

    private var ofClock: [Finding] {
        if let skew = daemon?.appleClockSkew, abs(skew) > 30_000 {
            return [Finding(.degraded, Self.sentence(skew: skew), remedy: "put NTP right", runbook: "siwatchclockskew")]
        }
        guard daemon?.isClockHeld == true else { return [] }
        return [Finding(.note, "nothing is deleted by age, because Apple has not confirmed the clock", runbook: "siwatchclockskew")]
    }

    /// - Parameter skew: how far Apple's clock is ahead, in milliseconds.
    static func sentence(skew: Int64) -> String {
        let seconds = Double(abs(skew) / 100) / 10
        return "the clock that siwatch goes by is \(seconds) s \(skew > 0 ? "behind" : "ahead of") Apple's"
    }

    private var ofRejections: [Finding] {
        var findings = breakers.filter(\.isOpen).map { Finding(.degraded, "breaker \($0.text)", runbook: "siwatchbreakeropen") }
        for app in apps {
            let (name, rejections) = (app.app.printable, app.rejections)
            if let pending = rejections?.pending, pending > 0 {
                let sentence = "\(name): \(pending.counted("rejection waits", "rejections wait")) to be believed"
                findings.append(Finding(.note, sentence, runbook: "siwatchrejectionspending"))
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
            let list = "siwatch unverified --app \(app.app.shellQuoted.printable) lists them"
            if app.neverAccepted > 0 {
                let sentence = "\(name): Apple rejects \(app.neverAccepted.counted("token")) that it has never accepted; \(list)"
                findings.append(Finding(.note, sentence, runbook: "siwatchtokensneveraccepted"))
            }
            if app.foreignTokens > 0 {
                findings.append(
                    Finding(
                        .note,
                        "\(name): Apple accepts \(app.foreignTokens.counted("token as that of another user", "tokens as those of other users")); \(list)"
                    )
                )
            }
            if app.unproven > 0 {
                // Few users come back, and an app without tokens proves none of them.
                let isMuch = app.unproven > 10 && app.unproven * 5 > app.ended && provingApps.contains(app.app)
                let percent = app.unproven * 100 / max(app.ended, 1)
                let back = "\(app.unproven) (\(percent) %) signed in again, and no token proves it"
                let sentence = "\(name): Apple has ended the sign-ins of \(app.ended.counted("user")); \(back)"
                let remedy = "look who may tell sign-ins, and let backends tell each with its code or token"
                findings.append(Finding(isMuch ? .degraded : .note, sentence, remedy: remedy))
            }
            let authorized = credentials.first { $0.app == app.app && $0.state == CredentialState.authorized.rawValue }?.count ?? 0
            if let unverified = unverified[app.app], unverified > 4, unverified > authorized / 20 {
                let sentence = "\(name): Apple has given no good answer about \(unverified) credentials for three intervals"
                findings.append(Finding(.degraded, sentence, runbook: "siwatchcredentialsunverified"))
            }
            if let overdue = overdue[app.app], overdue > 0, app.pausedAt == nil {
                let more = overdue == mostOverdueCounted ? " or more" : ""
                let sentence = "\(name): \(overdue)\(more) \(overdue == 1 ? "check" : "checks") overdue by a minute or more"
                // A moment's backlog of a small app is no trouble.
                let isMuch = overdue * 20 > authorized && (overdue > 20 || overdue * 2 > authorized)
                findings.append(Finding(isMuch ? .degraded : .note, sentence, runbook: "siwatchvalidationoverdue"))
            }
        }
        return findings
    }

    private var ofConfiguration: [Finding] {
        whatLeft + rounds.filter { !$0.round.fits }.map { Finding(.degraded, "\($0)", runbook: "siwatchchecksdonotfit") }
            + unknownCanaries.map { Finding(.degraded, "\($0)") } + otherTeams.map { Finding(.degraded, "\($0)") }
    }

    /// A line of the configuration may be lost, or the app or client be over.
    private var whatLeft: [Finding] {
        let configured = Set(rounds.map(\.app))
        let clients = clientsThatLeft.filter { configured.contains($0.app) }.map {
            let client = "\($0.clientID.printable) of \($0.app.printable)"
            return Finding(.note, "the client \(client) is not in the configuration, so nobody asks Apple about its tokens")
        }
        return clients
            + credentials.filter { $0.state == CredentialState.authorized.rawValue && $0.count > 0 && !configured.contains($0.app) }.map {
                Finding(
                    .note,
                    "\($0.app.printable) is not in the configuration, so nobody asks Apple about its \($0.count.counted("user"))"
                )
            }
    }

    private var ofHost: [Finding] {
        let warning = space?.warning.map { "database.path: \($0)" }
        var findings = warning.map { [Finding(.degraded, $0, remedy: DiskSpace.remedy, runbook: "siwatchstorefull")] } ?? []
        if let logPinnedSince, logPinnedSince < at.advanced(by: .minutes(-1)) {
            let sentence = "a transaction keeps erased data readable in the database since \(logPinnedSince.text)"
            let isLong = logPinnedSince < at.advanced(by: .minutes(-30))
            findings.append(Finding(isLong ? .degraded : .note, sentence, runbook: "siwatchlogpinned"))
        }
        if let expected = backedUpAt ?? (isRunning ? installedAt ?? runsSince : nil), expected < at.advanced(by: .hours(-48)) {
            let sentence = "siwatch backup \(backedUpAt == nil ? "has never written a copy" : "last wrote a copy \(ago(expected))")"
            let remedy = "sudo systemctl enable --now siwatch-backup.timer, or siwatch backup --note at the end of another program's copy"
            findings.append(Finding(.degraded, sentence, remedy: remedy, runbook: "siwatchbackupold"))
        }
        return findings
    }

    private var space: DiskSpace? { freeSpace.map(DiskSpace.init(free:)) }

    /// How long ago a time was, for people.
    func ago(_ time: Timestamp?) -> String {
        time.map { "\($0.duration(to: at).text) ago" } ?? "never"
    }
}
