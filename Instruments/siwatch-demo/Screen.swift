// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// Standard output: a terminal that can redraw a table, or a stream of plain lines.
final class Screen {
    private let isTerminal: Bool
    private var table: [String] = []
    private var lastLine = ""
    private var nextLineAt = ContinuousClock.now

    /// How often a stream gets a line from the table.
    private static let pace = Duration.seconds(2)

    init() {
        let environment = ProcessInfo.processInfo.environment
        let isPlain = environment["NO_COLOR"]?.isEmpty == false || environment["TERM"] ?? "dumb" == "dumb"
        isTerminal = !isPlain && isatty(STDOUT_FILENO) == 1 && Self.hasRoom
    }

    /// Whether the table fits, because the terminal cannot redraw a wrapped line.
    private static var hasRoom: Bool {
        var size = winsize()
        return ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col >= 80 && size.ws_row >= 20
    }

    func print(_ lines: String...) { print(lines) }
    func print(_ lines: [String]) { write(cursorHome + text(lines) + text(table)) }

    func show(_ board: Board) {
        if isTerminal {
            let home = cursorHome
            table = board.lines
            write(home + text(table))
        } else if ContinuousClock.now >= nextLineAt, board.line != lastLine {
            lastLine = board.line
            nextLineAt = ContinuousClock.now + Self.pace
            write(text(["         \(board.line)"]))
        }
    }

    func clear() {
        let home = cursorHome
        table = []
        if isTerminal { write(home + "\u{1B}[J") }
    }

    private var cursorHome: String { table.isEmpty ? "" : "\u{1B}[\(table.count)A" }
    private func text(_ lines: [String]) -> String { lines.map { isTerminal ? "\($0)\u{1B}[K\n" : "\($0)\n" }.joined() }

    private func write(_ text: String) {
        // A failed write does not matter, because the reader is gone.
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }
}

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

    var line: String {
        let states = Self.rows.map { _, reason in "\(reason) \(tally[.state, reason])" }
        return (states + ["mail off \(tally[.forwarding, "disabled"])", "waiting \(tally.total(.queue))", "checks \(answers.good)"])
            .joined(separator: "  ")
    }
}
