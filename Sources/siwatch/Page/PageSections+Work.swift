// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What waits, and what came of it.
extension PageSections {
    var queues: HTML {
        let rows = report.tables.queues.map { queue -> [HTML] in
            ["\(queue.name)", "\(queue.depth.grouped)", "\(report.age(of: queue))"]
        }
        let ending = report.tables.backlog.waitingGrants.codesEnding
        let codes: HTML =
            ending == 0 ? "No waiting code ends within a minute." : "\(HTML.mark(.down))\(ending) waiting codes end within a minute."
        let columns: KeyValuePairs = ["Queue": "", "Waiting": "number", "The oldest waits for": ""]
        return .table("Rows that wait, by queue", columns, [HTML.Group(rows: rows)]) + "\n" + .pairs([("codes", codes)])
    }

    var users: HTML {
        let groups = report.tables.apps.map { app in
            let rows = report.tables.credentials.filter { $0.app == app.app }.map { count -> [HTML] in
                let past = (daemon?.course ?? []).map { sample in
                    sample.credentials.first { $0.app == app.app && $0.state == count.state }?.count ?? 0
                }
                return ["\(count.state)", "\(count.count.grouped)", .course(past + [count.count])]
            }
            return HTML.Group(name: app.app, rows: rows)
        }
        let columns: KeyValuePairs = ["State": "", "Users now": "number", "Trend": ""]
        let since = daemon?.course.first.map { " since \($0.at.text.prefix(16))" } ?? ""
        return .table("Users by app and state, and their trend\(since)", columns, groups)
    }

    var notifications: HTML {
        let newest = report.tables.notifications.first.map { "The newest verified notification arrived at \(told($0))." as HTML }
        let rows = report.tables.backlog.quarantined.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { reason, count -> [HTML] in
            [.code(reason), "\(count.grouped)"]
        }
        let columns: KeyValuePairs = ["Reason": "", "Rows": "number"]
        let table = HTML.table("Notifications in quarantine, by reason", columns, [HTML.Group(rows: rows)])
        return .pairs([("newest", newest ?? "None has arrived yet."), ("quarantine", rows.isEmpty ? "Empty." : "See below.")])
            + (rows.isEmpty ? "" : "\n" + table)
    }
}
