// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// Those on both sides of siwatch: backends, and Apple.
extension PageSections {
    var backends: HTML {
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

    var apple: HTML {
        guard !report.tables.apps.isEmpty else { return "<p>No app is known yet.</p>" }
        return report.tables.apps.map(apple).joined(separator: "\n")
    }

    private static let columns: KeyValuePairs = ["Asked for": "", "Last answer": "answer", "Time": ""]

    private func apple(_ app: AppStatus) -> HTML {
        let id = "app-\(app.app)"
        let lanes = AskingLane.allCases.map { lane -> [HTML] in
            let answer = daemon?.answers.first { $0.app == app.app && $0.lane == lane }
            return ["\(lane.rawValue)", answer.map { .code($0.kind) } ?? "none yet", answer.map { ago($0.at) } ?? "–"]
        }
        let refused = report.tables.refusedClients.filter { $0.app == app.app }.map { client -> HTML in
            "\(HTML.mark(.down))Apple refuses \(HTML.code(client.clientID)) with \(HTML.code(client.refusal.word)) since \(time(client.refusal.since))."
        }
        let trials = (daemon?.keyTrials ?? []).filter { $0.app == app.app }.map { trial -> HTML in
            "\(HTML.code(trial.clientID)) \(trial.verdict.words) with the key \(HTML.code(trial.keyID)), asked \(ago(trial.askedAt))"
        }
        let pause = app.pausedAt.map { "\(HTML.mark(.degraded))An operator has paused it since \(time($0))." as HTML }
        let breaker = report.breakers.first { $0.app == app.app }
        let revocationLimit = app.revocationsHeldSince.map {
            "\(HTML.mark(.down))Reached since \(time($0)): it holds \(app.revocationsHeld.grouped) requests to revoke." as HTML
        }
        return """
            <article aria-labelledby="\(id)">
            <h3 id="\(id)">\(app.app)</h3>
            \(HTML.table("Apple’s last answers to \(app.app)", Self.columns, [HTML.Group(rows: lanes)]))
            \(HTML.pairs([
                ("clients", refused.isEmpty ? "Apple refuses no client." : refused.joined(separator: "<br>")),
                ("key", trials.isEmpty ? "Apple has not been asked about the key yet." : trials.joined(separator: "<br>")),
                ("operator", pause ?? "No operator has paused it."),
                ("breaker", breaker.map(text(of:)) ?? "–"),
                ("revocation limit", revocationLimit ?? "Not reached. It would hold requests to revoke if too many came in an hour."),
            ]))
            </article>
            """
    }

    private func text(of breaker: BreakerReport) -> HTML {
        guard !breaker.isOpen else { return "\(HTML.mark(.degraded))\(breaker.app): \(breaker.state)" }
        let (answers, rejections) = breaker.judged
        return "Closed: siwatch believes rejections of tokens. \(rejections.counted("rejection")) in the last \(answers) answers."
    }
}
