// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// A part of the status, which the text and the page print alike.
struct StatusSection {
    typealias Row = (name: String, value: String)

    var title: String
    var rows: [Row] = []
}

extension StatusReport {
    /// The status as text: the findings, and the sections below.
    var lines: [String] {
        let head = ["siwatch \(version) \(isRunning ? "runs" : "does not run") on \(database)", "health: \(findings.worst.health)"]
        let body = sections.flatMap { section in
            let width = section.rows.map { $0.name.printable.count }.max() ?? 0
            return ["", section.title] + section.rows.map { "  \($0.name.printable.padded(to: width))  \($0.value)" }
        }
        return (head + findings.flatMap(\.lines) + body).map(\.printable)
    }

    /// What is neither good nor bad by itself: findings judge it.
    var sections: [StatusSection] {
        let apps = tables.apps.isEmpty ? [StatusSection(title: "apps", rows: [("apps", "none yet")])] : tables.apps.map(section(of:))
        return [process, queues] + apps + [apple]
    }

    private var process: StatusSection {
        var rows: [StatusSection.Row] = []
        if let daemon {
            // As `/readyz` says.
            let readiness = daemon.troubles.isEmpty && insertObstacle == nil ? "ready" : "not ready"
            let inserts = daemon.insertsTriedAt.map { "tried \(ago($0))" } ?? "not tried yet"
            rows = [
                ("process", "\(daemon.processID) on \(daemon.host) since \(daemon.startedAt.text), \(readiness)"),
                ("configuration", "\(daemon.reload.mistakes.isEmpty ? "" : "not ")taken over \(ago(daemon.reload.at))"),
                ("backends", "\(insertObstacle == nil ? "can" : "cannot") insert, \(inserts)"),
                ("clock", daemon.appleClockSkew.map(Self.sentence) ?? "Apple has not shown its own yet"),
            ]
        } else {
            rows = [("daemon", "none has answered: from the tables alone")]
        }
        if let library = sqlite.map({ "SQLite \($0)" }) ?? postgresql.map({ "PostgreSQL \($0)" }) { rows.append(("database", library)) }
        if let freeSpace { rows.append(("disk", "\(Int(freeSpace >> 20).grouped) MB free")) }
        if let lockHolder { rows.append(("lock", "\(lockHolder) works alone on the file")) }
        rows += tables.sealed.keys.sorted { $0.key < $1.key }.map {
            let values = tables.sealed.countedAt == nil ? "" : "\($0.value.blobs.grouped) values under it, "
            let lost = $0.value.lost == 0 ? "" : "\($0.value.lost.grouped) that did not open, "
            return ("sealing key \($0.key)", "\(values)\(lost)\($0.value.seals.grouped) seals so far")
        }
        if sqlite != nil || tables.backedUpAt != nil { rows.append(("last backup", ago(tables.backedUpAt))) }
        return StatusSection(title: "process", rows: rows + (replicas ?? []).map(row(of:)))
    }

    /// What a siwatch on the server does alone, and how far its clock is off.
    private func row(of status: ReplicaStatus) -> StatusSection.Row {
        let replica = status.replica
        var words = [replica.version, "seen \(ago(status.seenAt))"]
        if !status.apps.isEmpty { words.append("asks Apple for \(status.apps.joined(separator: ", "))") }
        if !status.deliveries.isEmpty { words.append("sends webhooks to \(status.deliveries.joined(separator: ", "))") }
        if status.keepsHouse { words.append("keeps house") }
        words.append("its clock \(replica.clockSkew.milliseconds) ms off")
        return ("replica \(replica.host) \(replica.processID)", words.joined(separator: ", "))
    }

    private var queues: StatusSection {
        let waiting = tables.queues.map { queue -> StatusSection.Row in
            let oldest = queue.oldest.map(Timestamp.init(milliseconds:))
            let age = oldest.map { $0 > at ? ", the oldest dated ahead" : ", the oldest for \($0.duration(to: at).text)" } ?? ""
            return (queue.name, "\(queue.depth.grouped) waiting\(age)")
        }
        let configured = Set(configuration.deliveries.map(\.name))
        // Those that the daemon itself sends are newer.
        let own = (daemon?.deliveries ?? []).compactMap { sent in sent.position.map { (sent.name, $0) } }
        let positions = deliveries?.merging(own) { $1 }
        let unsent = (positions.map { configured.union($0.keys).sorted() } ?? []).map { name -> StatusSection.Row in
            guard let position = positions?[name] else { return ("delivery \(name)", "begins with siwatch's next start") }
            let stopped = position.stoppedAt.map { ", stopped since \($0.text): it said that it is gone" } ?? ""
            return ("delivery \(name)", "\(position.unsent)\(stopped)\(configured.contains(name) ? "" : ", not in the configuration")")
        }
        return StatusSection(title: "queues", rows: waiting + unsent)
    }

    private func section(of app: AppStatus) -> StatusSection {
        let pause = app.pausedAt.map { ", paused since \($0.text)" } ?? ""
        var rows: [StatusSection.Row] = tables.credentials.filter { $0.app == app.app }.map { ($0.state, $0.count.grouped) }
        if rows.isEmpty { rows = [("users", "none yet")] }
        rows += breakers.filter { $0.app == app.app }.map { ("breaker", $0.isOpen ? "open" : $0.state) }
        rows += (daemon?.answers ?? []).filter { $0.app == app.app }.map {
            ($0.lane.rawValue, "Apple last answered \($0.kind), \(ago($0.at))")
        }
        rows += (daemon?.keyTrials ?? []).filter { $0.app == app.app }.map {
            ("client \($0.clientID)", "\($0.verdict.words) with the key \($0.keyID), asked \(ago($0.askedAt))")
        }
        return StatusSection(title: "app \(app.app)\(pause)", rows: rows)
    }

    private var apple: StatusSection {
        let checks = tables.checks
        var rows: [StatusSection.Row] = [
            ("Apple's keys", "\(tables.signingKeys), fetched \(ago(tables.signingKeysFetchedAt))"),
            ("answered checks", "\(checks.answered.grouped), the last \(ago(checks.lastAnsweredAt))"),
            ("unanswered checks", "\(checks.failed.grouped), the last \(ago(checks.lastFailedAt))"),
            ("last verified notification", ago(tables.notifications.first)),
        ]
        let quarantined = tables.backlog.quarantined.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        if !quarantined.isEmpty { rows.append(("in quarantine", quarantined.map { "\($0) \($1)" }.joined(separator: ", "))) }
        return StatusSection(title: "Apple", rows: rows)
    }
}

extension QueueStatus {
    /// For people, who call a row of `grant_queue` a sign-in.
    var name: String { queue == "grant" ? "sign-in" : queue }
}
