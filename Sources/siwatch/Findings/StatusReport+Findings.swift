// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import SQLiteStore

extension StatusReport {
    /// All that an operator should know, the worst first.
    var findings: [Finding] {
        let all =
            (ofBackends + ofProcess + ofDaemon).sayingCauseOnce + ofApple + ofQueues + ofRefusals + ofDeliveries + ofAbandonedDeliveries
            + ofDifferentDeliveries + ofLaggingReplicas + ofRejections + ofConfiguration + ofSealing + ofHost
        return all.sorted { $0.severity > $1.severity }
    }

    @FindingList private var ofProcess: [Finding] {
        if !isRunning {
            let remedy = "journalctl -u siwatch and siwatch doctor --before-start say why; then sudo systemctl start siwatch"
            Finding(.down, "no siwatch runs on this database", remedy: remedy, runbook: .down)
        }
        if isSilent {
            let causes = "It stands still, cannot write, has another file open, or is no daemon (run --once, move)"
            Finding(.down, "its last sign of life here: \(ago(tables.aliveAt)). \(causes)", runbook: .notReady)
        }
        if daemon == nil, isRunning, daemonSilence == nil {
            let sentence = "siwatch runs and cannot be asked, so the tables alone speak"
            // A server is asked from hosts without a siwatch too.
            let severity = configuration.database.url == nil ? Finding.Severity.degraded : .note
            Finding(severity, ([sentence] + barriers).joined(separator: "; "), runbook: .notReady)
        }
        daemonSilence
        lanesWithoutOwner.map { Finding(.down, "no siwatch owns the lane \($0.printable)", runbook: .laneWithoutOwner) }
    }

    /// The apps that no siwatch on the server asks Apple about, and `maintenance` if none keeps house. A lane changes its owner within seconds.
    private var lanesWithoutOwner: [String] {
        let living = (replicas ?? []).filter { $0.isLiving(at: at) }
        guard let oldest = living.map(\.startedAt).min(), oldest < at.advanced(by: .minutes(-2)) else { return [] }
        let owned = Set(living.flatMap(\.apps))
        return configuration.apps.map(\.name).filter { !owned.contains($0) } + (living.contains(where: \.keepsHouse) ? [] : ["maintenance"])
    }

    @FindingList private var ofDaemon: [Finding] {
        if let daemon {
            daemon.troubles.map { trouble in
                let sentence = "siwatch is not ready: \(trouble)"
                let isPhase = ["starting", "stopping"].contains(trouble)
                return isPhase ? Finding(.degraded, sentence, runbook: .notReady) : down(sentence, runbook: .notReady)
            }
            if let reason = daemon.tablesUnread {
                let figures = daemon.tablesReadAt.map { "the figures are of \($0.text)" } ?? "there are no figures"
                Finding(.down, "the database does not answer: \(reason); \(figures)", runbook: .notReady)
            }
            if !daemon.reload.mistakes.isEmpty {
                let mistakes = daemon.reload.mistakes.joined(separator: "; ")
                let sentence = "the configuration of \(daemon.reload.at.text) was not taken over: \(mistakes)"
                let remedy = "sudo -u siwatch siwatch doctor --before-start, then sudo systemctl reload siwatch"
                Finding(.degraded, sentence, remedy: remedy, runbook: .finding)
            }
            if let trouble = daemon.keyFileTrouble {
                let sentence = "siwatch goes on with the sealing keys that it has read, and would not start again: \(trouble)"
                Finding(.degraded, sentence, remedy: "make the key file as it was; after siwatch secret retire, reload", runbook: .finding)
            }
            if let last = daemon.decisionPlantedAt, last > at.advanced(by: .days(-1)) {
                let sentence = "somebody wrote decisions into the database, which siwatch did not carry out, the last \(ago(last))"
                Finding(.degraded, sentence, runbook: .decisionPlanted)
            }
            if let lost = daemon.lostLines, lost.lastAt > at.advanced(by: .days(-1)) {
                let sentence = "the log has lost \(lost.count.counted("line")) since \(lost.firstAt.text), the last \(ago(lost.lastAt))"
                let remedy = lost.isOver ? nil : "df shows whether its disk is full"
                Finding(lost.isOver ? .note : .degraded, sentence, remedy: remedy, runbook: .logLost)
            }
            if let open = daemon.openFiles, let most = daemon.mostOpenFiles, open * 5 > most * 4 {
                let remedy = "a higher LimitNOFILE= in a drop-in of the unit"
                Finding(.degraded, "\(open) of \(most) file descriptors are open", remedy: remedy, runbook: .finding)
            }
            if !daemon.reload.needsRestart.isEmpty {
                let keys = daemon.reload.needsRestart.map(\.printable).joined(separator: ", ")
                Finding(.note, "new values of \(keys) wait for a restart")
            }
            if daemon.isReplaced {
                finding(ofReplacement: daemon.replacementObstacle)
            }
        }
    }

    private func finding(ofReplacement obstacle: String?) -> Finding {
        let sentence = "the program's file was replaced or removed, and version \(version) still runs"
        guard let obstacle else { return Finding(.note, sentence) }
        guard !obstacle.isEmpty else { return Finding(.note, sentence, remedy: "sudo systemctl restart siwatch") }
        let remedy = "no restart before sudo -u siwatch siwatch doctor --before-start is content"
        return Finding(.degraded, "\(sentence); what stands there would not start: \(obstacle)", remedy: remedy)
    }

    /// Of the configuration, a line may be lost, or the app or client be over.
    @FindingList var ofConfiguration: [Finding] {
        let configured = Set(configuration.apps.map(\.name))
        tables.clientsThatLeft(configuration).filter { configured.contains($0.app) }.map {
            let client = "\($0.clientID.printable) of \($0.app.printable)"
            return Finding(.note, "the client \(client) is not in the configuration, so nobody asks Apple about its tokens")
        }
        tables.credentials.filter { $0.state == CredentialState.authorized.rawValue && $0.count > 0 && !configured.contains($0.app) }.map {
            let users = $0.count.counted("user")
            return Finding(.note, "\($0.app.printable) is not in the configuration, so nobody asks Apple about its \(users)")
        }
        rounds.filter { !$0.round.fits }.map { Finding(.degraded, "\($0)", runbook: .checksLate) }
        tables.unknownCanaries.map { Finding(.degraded, $0.asUnknownCanary) }
        tables.otherTeams.map { Finding(.degraded, "\($0)") }
    }

    @FindingList private var ofHost: [Finding] {
        freeSpace.flatMap { DiskSpace(free: $0).finding }
        if let logPinnedSince, logPinnedSince < at.advanced(by: .minutes(-1)) {
            let sentence = "a transaction keeps erased data readable in the database since \(logPinnedSince.text)"
            let isLong = logPinnedSince < at.advanced(by: .minutes(-30))
            Finding(isLong ? .degraded : .note, sentence, runbook: .logPinned)
        }
        if let expected = tables.backedUpAt ?? (isRunning ? installedAt ?? runsSince : nil), expected < at.advanced(by: .hours(-48)) {
            let sentence = "siwatch backup \(tables.backedUpAt == nil ? "has never written a copy" : "last wrote a copy \(ago(expected))")"
            let remedy = "sudo systemctl enable --now siwatch-backup.timer, or siwatch backup --note at the end of another program's copy"
            Finding(.degraded, sentence, remedy: remedy, runbook: .backupOld)
        }
    }

    func ago(_ time: Timestamp?) -> String {
        time.map { "\($0.duration(to: at).text) ago" } ?? "never"
    }
}
