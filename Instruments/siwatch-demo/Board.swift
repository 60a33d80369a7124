// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// The table that shows the figures during the story.
struct Board {
    var tally: Tally
    var answers: (good: Int, refused: Int)

    private static let rows = [
        ("authorized", "granted"),
        ("revoked", "consent_revoked"),
        ("revoked", "token_rejected"),
        ("notFound", "account_deleted"),
    ]
    private static let barWidth = 36

    /// The table for a terminal, redrawn in the same place.
    var lines: [String] {
        let states = Self.rows.map { state, reason in
            let count = tally[.state, reason]
            let bar = (count * Self.barWidth + Script.people - 1) / Script.people
            return "    \(state.padded(12))\(reason.padded(18))\("\(count)".aligned(5))  \(String(repeating: "#", count: bar))"
        }
        return ["", "    \("state".padded(12))\("reason".padded(18))\("people".aligned(5))"] + states + [
            "",
            "    \("mail switched off".padded(30))\("\(tally[.forwarding, "disabled"])".aligned(5))",
            "    \("checks at Apple".padded(30))\("\(answers.good)".aligned(5)) good, \(answers.refused) refused",
            "    \("notifications applied".padded(30))\("\(tally[.notificationLog, "applied"])".aligned(5))"
                + ", \(tally[.notificationLog, "stale"]) stale, \(tally[.notificationLog, "duplicate"]) duplicate",
            "    \("notifications in quarantine".padded(30))\("\(tally.total(.quarantine))".aligned(5))",
            "    \("rows waiting".padded(30))\("\(tally.total(.queue))".aligned(5))"
                + ": \(tally[.queue, "grants"]) sign-ins, \(tally[.queue, "notifications"]) notifications",
        ]
    }

    /// The table as one line, for a file or a pipe.
    var line: String {
        let states = Self.rows.map { _, reason in "\(reason) \(tally[.state, reason])" }
        return (states + ["mail off \(tally[.forwarding, "disabled"])", "waiting \(tally.total(.queue))", "checks \(answers.good)"])
            .joined(separator: "  ")
    }
}
