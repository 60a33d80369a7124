// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

enum Words {
    static let logFile = "siwatch.log"

    static func opening(folder: String, isKept: Bool) -> [String] {
        [
            "siwatch demo: \(Script.people) people sign in with Apple, and some change their minds.",
            "",
            "  Apple     siwatch-simulator on this machine; nothing leaves it",
            "  siwatch   the daemon, which checks each token every \(Script.interval.milliseconds / 1000) s (in production once a day)",
            "  backend   signs people in through siwatch's HTTP door; siwatch's webhooks end their sessions",
            "  folder    \(folder)",
            isKept ? "            stays there (--keep)" : "            removed at the end; --keep leaves it there",
            "",
        ]
    }

    static func table(_ figures: [Audit.Figure]) -> [String] {
        let head = "  \("what".padded(44))\("simulator".aligned(10))\("siwatch".aligned(10))"
        let rows = figures.map { figure in
            "  \(figure.name.padded(44))\("\(figure.expected)".aligned(10))\("\(figure.found)".aligned(10))  \(figure.isRight ? "ok" : "WRONG")"
        }
        return ["", head, "  " + String(repeating: "-", count: 70)] + rows
    }

    static func timing(_ audit: Audit) -> [String] {
        let told = audit.notificationDelays
        let found = audit.discoveryDelays
        let exchanged = audit.codeDelays
        return [
            "",
            "  From a code's row to the sign-in: half within \(exchanged.quantile(0.5)) ms, 99 % within \(exchanged.quantile(0.99)) ms.",
            "  From a notification's row to the state: half within \(told.quantile(0.5)) ms, 99 % within \(told.quantile(0.99)) ms.",
            "  From a revocation that nobody told to its discovery: half within \(found.quantile(0.5)) ms, all within \(found.last ?? 0) ms.",
        ]
    }

    static func verdict(_ figures: [Audit.Figure], after time: Duration) -> [String] {
        let wrong = figures.filter { !$0.isRight }
        let seconds = Int(time / .seconds(1))
        if wrong.isEmpty { return ["", "All \(figures.count) figures are right, after \(seconds) s."] }
        return ["", "\(wrong.count) of \(figures.count) figures are WRONG, after \(seconds) s:"] + wrong.map { "  \($0)" }
    }

    static func afterwards(folder: WatchedFolder) -> [String] {
        [
            "",
            "Left for you to look at, in \(folder.url.path):",
            "  siwatch.sqlite   the tables, for instance with the statements below",
            "  \(logFile.padded(17))what the daemon had to say",
            "  siwatch.toml     its configuration: siwatch status --config FILE",
            "",
            "  SELECT state, reason, COUNT(*) FROM user_state GROUP BY state, reason;",
            "  SELECT * FROM revocation_log LIMIT 5;    or siwatch explain USER --receipts",
            "  SELECT * FROM credential_change WHERE kind = 'state' ORDER BY id DESC LIMIT 20;",
            "  SELECT type, outcome, COUNT(*) FROM notification_log GROUP BY type, outcome;",
            "  SELECT reason, detail, substr(payload, 1, 40) FROM notification_quarantine;",
        ]
    }
}

extension Array<Int> {
    /// Of values in ascending order, the one that this share does not exceed.
    fileprivate func quantile(_ share: Double) -> Int {
        isEmpty ? 0 : self[Swift.min(Int((Double(count) * share).rounded(.up)), count) - 1]
    }
}

extension String {
    /// Filled up with spaces at the end, to a width.
    func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }

    /// Filled up with spaces at the start, to a width.
    func aligned(_ width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}
