// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// A status report as a page of text.
struct StatusPage {
    private let report: StatusReport
    private let rates: StatusRates?

    init(_ report: StatusReport, rates: StatusRates? = nil) {
        self.report = report
        self.rates = rates
    }

    var lines: [String] {
        var lines = ["siwatch \(report.version) \(report.isRunning ? "runs" : "does not run") on \(report.database)"]
        if rates != nil { lines[0] += "  \(report.at.text)" }
        let findings = report.findings
        lines += ["health: \(findings.worst.health)"] + findings.flatMap(\.lines) + [""] + process
        lines += report.sqlite.map { ["SQLite \($0)"] } ?? []
        lines += report.postgresql.map { ["PostgreSQL \($0)"] } ?? []
        return lines + replicas + [""] + queues + deliveries + [""] + apps + [""] + apple + quarantine
    }

    /// What the daemon says of itself.
    private var process: [String] {
        guard let daemon = report.daemon else { return ["from the tables alone: no daemon has answered"] }
        // As `/readyz` says.
        let trouble = daemon.troubles.isEmpty && report.insertObstacle == nil ? "ready" : "not ready"
        var lines = [
            "process \(daemon.processID) on \(daemon.host.printable) since \(daemon.startedAt.text), \(trouble)",
            "configuration \(daemon.reload.mistakes.isEmpty ? "" : "not ")taken over \(report.ago(daemon.reload.at))",
        ]
        let inserts = daemon.insertsTriedAt.map { "tried \(report.ago($0))" } ?? "not tried yet"
        lines.append("backends \(report.insertObstacle == nil ? "can" : "cannot") insert, \(inserts)")
        lines.append(daemon.appleClockSkew.map(StatusReport.sentence) ?? "Apple has not shown its clock yet")
        lines += report.freeSpace.map { ["\($0 >> 20) MB free on the disk"] } ?? []
        lines += report.lockHolder.map { ["\($0) works alone on the file"] } ?? []
        return lines
    }

    /// One line for each siwatch on the server: what it does alone, and how far its clock is off.
    private var replicas: [String] {
        (report.replicas ?? []).map { status in
            let replica = status.replica
            var line = "replica \(replica.host.printable) \(replica.processID), \(replica.version.printable)"
            line += ", seen \(report.ago(status.seenAt))"
            if !status.apps.isEmpty { line += ", asks Apple for \(status.apps.map(\.printable).joined(separator: ", "))" }
            if !status.deliveries.isEmpty { line += ", sends webhooks to \(status.deliveries.map(\.printable).joined(separator: ", "))" }
            if status.keepsHouse { line += ", keeps house" }
            return line + ", its clock \(replica.clockSkew.milliseconds) ms off"
        }
    }

    private var queues: [String] {
        let head = "queue           waiting  the oldest for" + (rates == nil ? "" : "   settled/s")
        return [head]
            + report.tables.queues.map { queue in
                let line = "\(queue.name.padded(to: 14))\(String(queue.depth).padded(to: -9))  \(report.age(of: queue).padded(to: 14))"
                return rates.map { line + $0.column(queue.queue) } ?? line
            }
    }

    private var deliveries: [String] {
        guard let positions = report.deliveries else { return [] }
        let configured = Set(report.configuration.deliveries.map(\.name))
        return configured.union(positions.keys).sorted().map { name in
            guard let position = positions[name] else { return "delivery \(name.printable): begins with siwatch's next start" }
            let stopped = position.stoppedAt.map { ", stopped since \($0.text): it said that it is gone" } ?? ""
            let absence = configured.contains(name) ? "" : ", not in the configuration"
            return "delivery \(name.printable): \(position.unsent)\(stopped)\(absence)"
        }
    }

    private var apps: [String] {
        var lines: [String] = []
        for app in report.tables.apps {
            let pause = app.pausedAt.map { ", paused since \($0.text)" } ?? ""
            lines.append("app \(app.app.printable)\(pause)")
            let counts = report.tables.credentials.filter { $0.app == app.app }
            let total = counts.reduce(0) { $0 + max($1.count, 0) }
            for count in counts {
                let share = total > 0 ? Double(count.count) / Double(total) : 0
                lines.append("  \(count.state.padded(to: 12))\(String(count.count).padded(to: -9))  \(Self.bar(share))")
            }
            if counts.isEmpty { lines.append("  no credentials yet") }
            lines += report.breakers.filter { $0.app == app.app }.map { "  breaker \($0.isOpen ? "open" : $0.state)" }
        }
        return lines.isEmpty ? ["no app yet"] : lines
    }

    private var apple: [String] {
        let checks = report.tables.checks
        let keys = "Apple's keys    \(String(report.tables.signingKeys).padded(to: -7))"
        var lines = ["\(keys)  fetched \(report.ago(report.tables.signingKeysFetchedAt))"]
        let answered = "checks answered \(String(checks.answered).padded(to: -7))  last \(report.ago(checks.lastAnsweredAt))"
        lines.append(rates.map { answered.padded(to: 39) + $0.column(StatusRates.answers) } ?? answered)
        lines.append("and unanswered  \(String(checks.failed).padded(to: -7))  last \(report.ago(checks.lastFailedAt))")
        let backup = report.tables.backedUpAt
        if report.sqlite != nil || backup != nil { lines.append("last backup     \(report.ago(backup))") }
        lines.append("last verified notification  \(report.ago(report.tables.notifications.first))")
        guard let daemon = report.daemon else { return lines }
        lines += daemon.keyTrials.map { trial in
            "client \(trial.clientID.printable) \(trial.verdict.words) with the key \(trial.keyID.printable), asked \(report.ago(trial.askedAt))"
        }
        lines += ["", daemon.answers.isEmpty ? "Apple has answered about no token and no code since the start" : "Apple's last answers"]
        return lines
            + daemon.answers.map { answer in
                "  \(answer.app.printable.padded(to: 14))\(answer.lane.rawValue.padded(to: 13))\(answer.kind.printable.padded(to: 22))\(report.ago(answer.at))"
            }
    }

    private var quarantine: [String] {
        guard !report.tables.backlog.quarantined.isEmpty else { return [] }
        let reasons = report.tables.backlog.quarantined.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        return ["", "in quarantine: " + reasons.map { "\($0.key.printable) \($0.value)" }.joined(separator: ", ")]
    }

    /// A bar of at most 30 characters, in eighths of a character. A share above zero is always visible.
    private static func bar(_ share: Double) -> String {
        let eighths = share > 0 ? max(Int((share * 240).rounded()), 1) : 0
        let rest = eighths % 8 == 0 ? "" : String(Array("▏▎▍▌▋▊▉")[eighths % 8 - 1])
        return String(repeating: "█", count: eighths / 8) + rest
    }
}

extension QueueStatus {
    /// For people, who call a row of `grant_queue` a sign-in.
    var name: String { queue == "grant" ? "sign-in" : queue }
}
