// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Logging

/// What the rest stands on: proofs, keys, the clock, the process and its log.
extension PageSections {
    var proofs: HTML {
        let clients = report.unprovenClients.map { client -> HTML in
            let last = client.validAt.map { "last at \(told($0))" as HTML } ?? "never yet"
            return "Apple has accepted no token of \(HTML.code(client.clientID)) within the last refresh.interval (\(last))."
        }
        let clock = daemon?.appleClockSkew.map { skew -> HTML in
            "\(HTML.mark(abs(skew) > 30_000 ? .degraded : .note))\(StatusReport.sentence(skew: skew).capitalizedFirst)."
        }
        let held: HTML = daemon?.isClockHeld == true ? " Nothing is deleted by age until Apple confirms the clock." : ""
        let fetched = report.tables.signingKeysFetchedAt.map { " It fetched them at \(told($0))." as HTML } ?? ""
        let backup = report.tables.backedUpAt.map { "\(HTML.code("siwatch backup")) last wrote a copy at \(told($0))." as HTML }
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
            ("signing keys", "siwatch knows \(report.tables.signingKeys) of Apple’s keys.\(fetched)"),
            ("backup", backup ?? (report.sqlite == nil ? ownTools : "siwatch backup has written no copy yet.")),
        ])
    }

    var process: HTML {
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
            let lanes = status.apps + status.deliveries.map { "webhooks \($0)" } + (status.keepsHouse ? ["housekeeping"] : [])
            let replica = status.replica
            return [
                "\(replica.host)", "\(Int(replica.processID))", "\(replica.version)", ago(status.seenAt),
                "\(lanes.isEmpty ? "none" : lanes.joined(separator: ", "))", "\(replica.clockSkew.milliseconds) ms off",
            ]
        }
        let columns: KeyValuePairs = [
            "Host": "host", "Process": "", "Version": "", "Seen": "seen", "At work on": "lanes", "Clock": "clock",
        ]
        return .table("siwatch processes that this database saw within an hour", columns, [HTML.Group(rows: rows)], style: "stack replicas")
    }

    var warnings: HTML {
        let lines = daemon?.warnings ?? []
        guard !lines.isEmpty else { return "<p>No line of the log since the start has the level warning or higher.</p>" }
        let rows = lines.reversed().map { line -> [HTML] in
            let fields = line.shownFields.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
            return [
                time(line.at), "\(line.level.rawValue)", .code(line.name),
                "\(line.message)\(fields.isEmpty ? "" : HTML.code(fields, class: "fields"))",
            ]
        }
        let columns: KeyValuePairs = ["Time": "", "Level": "level", "Event": "event", "Message and fields": ""]
        let caption = "The last \(lines.count) lines of the log with the level warning or higher, newest first"
        return .table(caption, columns, [HTML.Group(rows: rows)], style: "stack warnings")
    }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
