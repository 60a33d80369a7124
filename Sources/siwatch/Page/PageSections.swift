// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// The sections of the page, in the order in which an operator needs them.
struct PageSections {
    private let report: StatusReport
    private let findings: [Finding]
    private var health: Health { Health(findings) }
    private var now: Timestamp { report.at }
    private var daemon: DaemonReport? { report.daemon }

    struct Named {
        var id: String
        var title: String
        var content: HTML
    }

    init(_ report: StatusReport) {
        self.report = report
        findings = report.findings
    }

    var named: [Named] {
        [
            named("backends", "Backends", backends),
            named("apple", "Apple", apple),
            named("queues", "Queues", queues),
            named("users", "Users", users),
            named("notifications", "Notifications", notifications),
            named("proofs", "Proofs, clock, keys, backup", proofs),
            named("process", "Process", process),
            named("warnings", "Warnings", warnings),
        ]
    }

    private func named(_ id: String, _ title: String, _ content: HTML) -> Named {
        Named(id: id, title: title, content: .section(id, title, content))
    }

    // MARK: The verdict

    var title: String {
        let host = daemon?.host ?? ""
        guard let worst, worst.severity > .note else { return "All is well – siwatch on \(host)" }
        return "\(worst.severity): \(worst.sentence.prefix(80)) – siwatch on \(host)"
    }

    private var worst: Finding? { findings.first }

    var verdict: HTML {
        let (tone, icon) = Self.look(of: health)
        let asOf: HTML = """
            <p class="asof">As of <time id="at" datetime="\(now.text)">\(now.text.dropFirst(11).prefix(8).description)</time> UTC on \
            \(now.text.prefix(10).description). All times on this page are UTC.</p>
            """
        let body: HTML
        if let worst, worst.severity > .note {
            let remedy = worst.remedy.map { "<p>\($0)</p>\n" as HTML } ?? ""
            body = "<h1 id=\"verdict\">\(worst.sentence)</h1>\n\(remedy)\(runbook(of: worst))"
        } else {
            body = "<h1 id=\"verdict\">All is well.</h1>\n<p>Backends can insert, siwatch works, and nothing is late.</p>"
        }
        let word: HTML = health == .healthy ? "" : "<span>\(health.rawValue)</span>"
        return """
            <section class="verdict \(tone)" aria-labelledby="verdict">
            <p><svg width="24" height="24" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">\
            \(icon)</svg>\(word)</p>
            <div>
            \(body)
            \(asOf)
            </div>
            </section>
            """
    }

    private static func look(of health: Health) -> (tone: String, icon: HTML) {
        switch health {
        case .healthy: ("well", "<circle cx=\"12\" cy=\"12\" r=\"10\"/><path d=\"M7.5 12.5l3 3 6-7\"/>")
        case .degraded: ("warning", "<path d=\"M12 2.5L22.5 21h-21z\"/><path d=\"M12 9.5v5.5M12 17.5v.6\"/>")
        case .down: ("wrong", "<path d=\"M7.9 2h8.2L22 7.9v8.2L16.1 22H7.9L2 16.1V7.9z\"/><path d=\"M12 7v6.5M12 16.5v.6\"/>")
        }
    }

    /// All findings but the one in the verdict.
    var facts: HTML {
        let others = health == .healthy ? findings[...] : findings.dropFirst()
        guard !others.isEmpty else { return "" }
        let items = others.map { finding -> HTML in
            let remedy = finding.remedy.map { "<p>\($0)</p>" as HTML } ?? ""
            let mark: HTML = finding.severity == .note ? "<span class=\"muted\">note</span>" : .mark(finding.severity)
            return "<li>\(mark)<div><p>\(finding.sentence)</p>\(remedy)\(runbook(of: finding))</div></li>"
        }
        return .section("facts", "Further facts", "<ul class=\"facts\">\n\(items.joined(separator: "\n"))\n</ul>")
    }

    private func runbook(of finding: Finding) -> HTML {
        finding.runbook.map { "<p class=\"runbook\">Runbook: \(HTML.code(Finding.page(ofRunbook: $0)))</p>" } ?? ""
    }

    // MARK: Backends and Apple

    private var backends: HTML {
        let tried = daemon?.insertsTriedAt.map { " siwatch last tried at \(told($0))." as HTML } ?? ""
        let obstacle = report.insertObstacle.map { "\(HTML.mark(.down))Backends cannot insert: \($0)." as HTML }
        let inserts = (obstacle ?? (tried.markup.isEmpty ? "Not tried yet." : "Backends can insert.")) + tried
        let taken = (daemon?.deliveries ?? []).compactMap { delivery in delivery.position.map { webhooks(of: delivery.name, $0) } }
        return .pairs([("inserts", inserts)] + (taken.isEmpty ? [] : [("webhooks", taken.joined(separator: "<br>"))]))
    }

    private func webhooks(of name: String, _ position: DeliveryPosition) -> HTML {
        let open = position.behind + Int64(position.waiting + position.dead)
        return open == 0
            ? "\(HTML.code(name)) has taken all." : "\(HTML.code(name)) has not taken \(Int(open).grouped) of the last changes."
    }

    private var apple: HTML {
        guard !report.apps.isEmpty else { return "<p>No app is known yet.</p>" }
        return report.apps.map(apple).joined(separator: "\n")
    }

    private func apple(_ app: AppStatus) -> HTML {
        let id = "app-\(app.app)"
        let lanes = AskingLane.allCases.map { lane -> [HTML] in
            let answer = daemon?.answers.first { $0.app == app.app && $0.lane == lane }
            return ["\(lane.rawValue)", answer.map { .code($0.kind) } ?? "none yet", answer.map { ago($0.at) } ?? "–"]
        }
        let columns = [HTML.Column(name: "Asked for"), HTML.Column(name: "Last answer", style: "answer"), HTML.Column(name: "Time")]
        let refused = report.refusedClients.filter { $0.app == app.app }.map { client -> HTML in
            "\(HTML.mark(.down))Apple refuses \(HTML.code(client.clientID)) with \(HTML.code(client.refusal.word)) since \(time(client.refusal.since))."
        }
        let trials = (daemon?.keyTrials ?? []).filter { $0.app == app.app }.map { trial -> HTML in
            "\(HTML.code(trial.clientID)) \(trial.verdict.rawValue) with the key \(HTML.code(trial.keyID)), asked \(ago(trial.askedAt))"
        }
        let pause = app.pausedAt.map { "\(HTML.mark(.degraded))An operator has paused it since \(time($0))." as HTML }
        let breaker = report.breakers.first { $0.app == app.app }
        let brake = app.revocationsBrakedAt.map {
            "\(HTML.mark(.down))Set since \(time($0)): it holds \(app.revocationsHeld.grouped) requests to revoke." as HTML
        }
        return """
            <article aria-labelledby="\(id)">
            <h3 id="\(id)">\(app.app)</h3>
            \(HTML.table("Apple’s last answers to \(app.app)", columns, [HTML.Group(rows: lanes)]))
            \(HTML.pairs([
                ("clients", refused.isEmpty ? "Apple refuses no client." : refused.joined(separator: "<br>")),
                ("key", trials.isEmpty ? "Apple has not been asked about the key yet." : trials.joined(separator: "<br>")),
                ("operator", pause ?? "No operator has paused it."),
                ("breaker", breaker.map(text(of:)) ?? "–"),
                ("brake", brake ?? "Not set. It would hold requests to revoke if too many came in an hour."),
            ]))
            </article>
            """
    }

    private func text(of breaker: BreakerReport) -> HTML {
        guard !breaker.isOpen else { return "\(HTML.mark(.degraded))\(breaker.text)" }
        let noun = breaker.rejections == 1 ? "rejection" : "rejections"
        return "Closed: siwatch believes rejections of tokens. \(breaker.rejections) \(noun) in the last \(breaker.answers) answers."
    }

    // MARK: Work

    private var queues: HTML {
        let rows = report.queues.map { queue -> [HTML] in
            let oldest = queue.oldest.map(Timestamp.init(milliseconds:))
            let age = oldest.map { $0 > now ? "dated ahead" : $0.duration(to: now).text } ?? "–"
            return ["\(queue.queue)", "\(queue.depth.grouped)", "\(age)"]
        }
        let ending = report.waitingGrants.codesEnding
        let codes: HTML =
            ending == 0 ? "No waiting code ends within a minute." : "\(HTML.mark(.down))\(ending) waiting codes end within a minute."
        let columns = [
            HTML.Column(name: "Queue"), HTML.Column(name: "Waiting", style: "number"), HTML.Column(name: "The oldest waits for"),
        ]
        return .table("Rows that wait, by queue", columns, [HTML.Group(rows: rows)]) + "\n" + .pairs([("codes", codes)])
    }

    private var users: HTML {
        let groups = report.apps.map { app in
            let rows = report.credentials.filter { $0.app == app.app }.map { count -> [HTML] in
                let past = (daemon?.course ?? []).map { sample in
                    sample.credentials.first { $0.app == app.app && $0.state == count.state }?.count ?? 0
                }
                return ["\(count.state)", "\(count.count.grouped)", .course(past + [count.count])]
            }
            return HTML.Group(name: app.app, rows: rows)
        }
        let columns = [HTML.Column(name: "State"), HTML.Column(name: "Users now", style: "number"), HTML.Column(name: "Course")]
        let since = daemon?.course.first.map { " since \($0.at.text.prefix(16))" } ?? ""
        return .table("Users by app and state, and their course\(since)", columns, groups)
    }

    private var notifications: HTML {
        let newest = report.newestNotification.map { "The newest verified notification arrived at \(told($0))." as HTML }
        let rows = report.quarantined.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { reason, count -> [HTML] in
            [.code(reason), "\(count.grouped)"]
        }
        let table = HTML.table(
            "Notifications in quarantine, by reason",
            [HTML.Column(name: "Reason"), HTML.Column(name: "Rows", style: "number")],
            [HTML.Group(rows: rows)]
        )
        return .pairs([("newest", newest ?? "None has arrived yet."), ("quarantine", rows.isEmpty ? "Empty." : "See below.")])
            + (rows.isEmpty ? "" : "\n" + table)
    }

    // MARK: Proofs and the process

    private var proofs: HTML {
        let clients = report.unprovenClients.map { client -> HTML in
            let last = client.validAt.map { "last at \(told($0))" as HTML } ?? "never yet"
            return "Apple has accepted no token of \(HTML.code(client.clientID)) within the last refresh.interval (\(last))."
        }
        let clock = daemon?.appleClockSkew.map { skew -> HTML in
            "\(HTML.mark(abs(skew) > 30_000 ? .degraded : .note))\(StatusReport.sentence(skew: skew).capitalizedFirst)."
        }
        let held: HTML = daemon?.isClockHeld == true ? " Nothing is deleted by age until Apple confirms the clock." : ""
        let fetched = report.signingKeysFetchedAt.map { " It fetched them at \(told($0))." as HTML } ?? ""
        let backup = report.backedUpAt.map { "\(HTML.code("siwatch backup")) last wrote a copy at \(told($0))." as HTML }
        let isProven = clients.isEmpty
        let ownTools: HTML = "Back the server up with its own tools."
        return .pairs([
            (
                "proofs",
                isProven
                    ? "Apple has accepted a token of every client that has one, within the last refresh.interval."
                    : clients.joined(separator: "<br>")
            ),
            ("clock", (clock ?? "Apple has not shown its clock yet.") + held),
            ("signing keys", "siwatch knows \(report.signingKeys) of Apple’s keys.\(fetched)"),
            ("backup", report.sqlite == nil ? ownTools : backup ?? "siwatch backup has written no copy yet."),
        ])
    }

    private var process: HTML {
        var rows: [(String, HTML)] = []
        if let daemon {
            let other: HTML = daemon.isReplaced ? " The program's file was replaced or removed; a restart starts the new one." : ""
            rows = [
                ("running", "Version \(report.version), since \(told(daemon.startedAt)).\(other)"),
                ("process", "Process \(Int(daemon.processID)) on \(daemon.host)"),
                ("reload", reload(daemon.reload)),
            ]
        }
        let program = report.sqlite.map { "SQLite \($0)" } ?? report.postgresql.map { "PostgreSQL \($0)" } ?? ""
        rows.append(("database", "\(program), \(HTML.code(report.database))"))
        rows += report.freeSpace.map { [("disk", "\(Int($0 >> 20).grouped) MB are free.")] } ?? []
        rows += report.lockHolder.map { [("lock", "\($0) works alone on the file.")] } ?? []
        return .pairs(rows) + (report.replicas.map { "\n" + replicas($0) } ?? "")
    }

    private func reload(_ reload: DaemonReport.Reload) -> HTML {
        guard reload.mistakes.isEmpty else {
            return "\(HTML.mark(.degraded))At \(told(reload.at)) it was not taken over: \(reload.mistakes.joined(separator: "; "))"
        }
        let waiting: HTML = reload.needsRestart.isEmpty ? "" : " A restart takes over \(reload.needsRestart.joined(separator: ", "))."
        return "The configuration was taken over at \(told(reload.at)).\(waiting)"
    }

    private func replicas(_ replicas: [ReplicaStatus]) -> HTML {
        let rows = replicas.map { status -> [HTML] in
            let lanes = status.apps + (status.keepsHouse ? ["housekeeping"] : [])
            let replica = status.replica
            return [
                "\(replica.host)", "\(Int(replica.processID))", "\(replica.version)", ago(status.seenAt),
                "\(lanes.isEmpty ? "none" : lanes.joined(separator: ", "))", "\(replica.clockSkew.milliseconds) ms off",
            ]
        }
        let columns = [
            HTML.Column(name: "Host", style: "host"), HTML.Column(name: "Process"), HTML.Column(name: "Version"),
            HTML.Column(name: "Seen", style: "seen"), HTML.Column(name: "At work on", style: "lanes"),
            HTML.Column(name: "Clock", style: "clock"),
        ]
        return .table("siwatch processes that this database saw within an hour", columns, [HTML.Group(rows: rows)], style: "stack replicas")
    }

    private var warnings: HTML {
        let lines = daemon?.warnings ?? []
        guard !lines.isEmpty else { return "<p>No line of the log since the start has the level warning or higher.</p>" }
        let rows = lines.reversed().map { line -> [HTML] in
            let fields = line.fields.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
            return [
                time(line.at), "\(line.level)", .code(line.event),
                "\(line.message)\(fields.isEmpty ? "" : HTML.code(fields, class: "fields"))",
            ]
        }
        let columns = [
            HTML.Column(name: "Time"), HTML.Column(name: "Level", style: "level"), HTML.Column(name: "Event", style: "event"),
            HTML.Column(name: "Message and fields"),
        ]
        let caption = "The last \(lines.count) lines of the log with the level warning or higher, newest first"
        return .table(caption, columns, [HTML.Group(rows: rows)], style: "stack warnings")
    }

    // MARK: Times

    /// The time of day, with the date if it is another day's.
    private func time(_ time: Timestamp) -> HTML {
        let (text, today) = (time.text, now.text)
        let isToday = text.prefix(10) == today.prefix(10)
        let shown = isToday ? "\(text.dropFirst(11).prefix(8))" : "\(text.prefix(10)) \(text.dropFirst(11).prefix(5))"
        return "<time datetime=\"\(text)\">\(shown)</time>"
    }

    /// In a table.
    private func ago(_ moment: Timestamp) -> HTML {
        "\(time(moment)) <span class=\"ago\">\(moment.duration(to: now).text) ago</span>"
    }

    /// In a sentence.
    private func told(_ moment: Timestamp) -> HTML {
        "\(time(moment)), \(moment.duration(to: now).text) ago"
    }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
