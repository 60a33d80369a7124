// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Standard output: a terminal that can redraw a table, or a stream of plain lines.
final class Screen {
    private let isTerminal: Bool
    /// The lines of the table on the terminal.
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

    /// Writes lines that stay, above the table.
    func print(_ lines: String...) { print(lines) }

    func print(_ lines: [String]) {
        write(cursorHome + text(lines) + text(table))
    }

    /// Redraws the table, or writes a line of it now and then.
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

    /// Removes the table.
    func clear() {
        let home = cursorHome
        table = []
        if isTerminal { write(home + "\u{1B}[J") }
    }

    /// Moves the cursor to the beginning of the table.
    private var cursorHome: String { table.isEmpty ? "" : "\u{1B}[\(table.count)A" }

    private func text(_ lines: [String]) -> String {
        lines.map { isTerminal ? "\($0)\u{1B}[K\n" : "\($0)\n" }.joined()
    }

    private func write(_ text: String) {
        // A failed write does not matter, because the reader is gone.
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }
}
