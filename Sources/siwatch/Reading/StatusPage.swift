// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A status report as a page of text.
struct StatusPage {
    private let report: StatusReport
    private let rates: StatusRates?
    private var now: Timestamp { report.at }

    init(_ report: StatusReport, rates: StatusRates? = nil) {
        self.report = report
        self.rates = rates
    }

    var lines: [String] {
        var lines = ["siwatch \(report.version) \(report.isRunning ? "runs" : "does not run") on \(report.database)"]
        if rates != nil { lines[0] += "  \(now.text)" }
        if report.isSilent {
            let causes = "It stands still, cannot write, has another file open, or is no daemon (run --once, move)"
            lines.append("its last sign of life here: \(ago(report.aliveAt)). \(causes)")
        }
        if let obstacle = report.insertObstacle { lines.append("backends cannot insert: \(obstacle)") }
        let bug = report.hasWALResetBug ? ", with the WAL-reset bug: let backends set PRAGMA wal_autocheckpoint=0" : ""
        lines += report.sqlite.map { ["SQLite \($0)\(bug)"] } ?? []
        lines += report.postgresql.map { ["PostgreSQL \($0)"] } ?? []
        lines += replicas
        return lines + [""] + queues + [""] + apps + guards + [""] + apple + quarantine
    }

    /// One line for each siwatch on the server: what it does alone, and how far its clock is off.
    private var replicas: [String] {
        (report.replicas ?? []).map { status in
            let replica = status.replica
            var line = "replica \(replica.host.printable) \(replica.processID), \(replica.version.printable), seen \(ago(status.seenAt))"
            if !status.apps.isEmpty { line += ", asks Apple for \(status.apps.map(\.printable).joined(separator: ", "))" }
            if status.keepsHouse { line += ", keeps house" }
            return line + ", its clock \(replica.clockSkew.milliseconds) ms off"
        }
    }

    private var queues: [String] {
        let head = "queue           waiting  the oldest for" + (rates == nil ? "" : "   settled/s")
        return [head]
            + report.queues.map { queue in
                let line = "\(queue.queue.padded(to: 14))\(String(queue.depth).padded(to: -9))  \(age(queue.oldest).padded(to: 14))"
                return rates.map { line + $0.column(queue.queue) } ?? line
            }
    }

    private var apps: [String] {
        var lines: [String] = []
        for app in report.apps {
            let pause = app.pausedAt.map { ", paused since \($0.text)" } ?? ""
            let overdue = report.overdue[app.app] ?? 0
            let more = overdue == mostOverdueCounted ? " or more" : ""
            let late = overdue > 0 ? ", \(overdue)\(more) checks overdue by a minute or more" : ""
            lines.append("app \(app.app.printable)\(pause)\(late)")
            let counts = report.credentials.filter { $0.app == app.app }
            let total = counts.reduce(0) { $0 + max($1.count, 0) }
            for count in counts {
                let share = total > 0 ? Double(count.count) / Double(total) : 0
                lines.append("  \(count.state.padded(to: 12))\(String(count.count).padded(to: -9))  \(Self.bar(share))")
            }
            if counts.isEmpty { lines.append("  no credentials yet") }
        }
        return lines.isEmpty ? ["no app yet"] : lines
    }

    /// Why rejections are not believed yet, and other problems with rejections.
    private var guards: [String] {
        var lines = report.breakers.filter(\.isOpen).map { "breaker \($0.text)" }
        lines += report.apps.compactMap { app in
            guard let rejections = app.rejections, rejections.pending > 0 else { return nil }
            return "\(app.app.printable): \(rejections.pending) rejections wait to be believed"
        }
        lines += report.refusedClients.map(\.sentence)
        lines += report.unprovenClients.map { client in
            let last = client.validAt.map { "none since \($0.text)" } ?? "none yet"
            return "Apple has accepted no token of \(client.clientID.printable) within an interval (\(last)): its rejections wait"
        }
        lines += report.apps.compactMap { app in
            guard let rejections = app.rejections, rejections.withoutNotification > 0 else { return nil }
            let percent = Int((Double(rejections.withoutNotification) / Double(max(rejections.admitted, 1)) * 100).rounded())
            return "\(app.app.printable): \(rejections.withoutNotification) of \(rejections.admitted) revocations (\(percent) %) "
                + "came without a notification; is the endpoint registered at Apple?"
        }
        lines += report.apps.filter { $0.neverAccepted > 0 }.map { app in
            "\(app.app.printable): Apple rejects \(app.neverAccepted) tokens that it has never accepted; "
                + "siwatch unverified --app \(app.app.printable) lists them"
        }
        lines += report.apps.filter { $0.foreignTokens > 0 }.map { app in
            "\(app.app.printable): Apple accepts \(app.foreignTokens) tokens as those of other users; "
                + "siwatch unverified --app \(app.app.printable) lists them"
        }
        lines += report.waitingGrants.sentences(at: now)
        lines += report.apps.map(BrakeReport.init).filter { $0.setAt != nil }.map(\.text)
        lines += revocations
        lines += report.rounds.filter { !$0.round.fits }.map { "\($0)" }
        lines += report.unknownCanaries.map { "\($0)" }
        lines += report.otherTeams.map { "\($0)" }
        return lines.isEmpty ? [] : [""] + lines
    }

    private var revocations: [String] {
        let waiting = report.waitingRevocations
        guard waiting.requests > 0 else { return [] }
        var line = "\(waiting.requests) requests to revoke wait, with \(waiting.tokens) tokens at work"
        if let oldest = waiting.oldest { line += ", the oldest for \(oldest.duration(to: now).text)" }
        var lines = [line]
        if waiting.stillAccepted > 0 { lines.append("Apple still accepts \(waiting.stillAccepted) tokens that it was asked to revoke") }
        if waiting.unbelieved > 0 {
            lines.append("Apple rejected \(waiting.unbelieved) tokens before they were revoked, which is not believed yet")
        }
        return lines
    }

    private var apple: [String] {
        let checks = report.checks
        var lines = ["Apple's keys    \(String(report.signingKeys).padded(to: -7))  fetched \(ago(report.signingKeysFetchedAt))"]
        let answered = "Apple answered  \(String(checks.answered).padded(to: -7))  last \(ago(checks.lastAnsweredAt))"
        lines.append(rates.map { answered.padded(to: 39) + $0.column(StatusRates.answers) } ?? answered)
        lines.append("and did not     \(String(checks.failed).padded(to: -7))  last \(ago(checks.lastFailedAt))")
        if report.sqlite != nil { lines.append("last backup     \(ago(report.backedUpAt))") }
        return lines
    }

    private var quarantine: [String] {
        guard !report.quarantined.isEmpty else { return [] }
        let reasons = report.quarantined.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        return ["", "in quarantine: " + reasons.map { "\($0.key.printable) \($0.value)" }.joined(separator: ", ")]
    }

    private func age(_ milliseconds: Int64?) -> String {
        guard let time = milliseconds.map(Timestamp.init(milliseconds:)) else { return "–" }
        return time > now ? "dated ahead" : time.duration(to: now).text
    }

    private func ago(_ time: Timestamp?) -> String {
        time.map { "\($0.duration(to: now).text) ago" } ?? "never"
    }

    /// A bar of at most 30 characters, in eighths of a character. A share above zero is always visible.
    private static func bar(_ share: Double) -> String {
        let eighths = share > 0 ? max(Int((share * 240).rounded()), 1) : 0
        let rest = eighths % 8 == 0 ? "" : String(Array("▏▎▍▌▋▊▉")[eighths % 8 - 1])
        return String(repeating: "█", count: eighths / 8) + rest
    }
}
