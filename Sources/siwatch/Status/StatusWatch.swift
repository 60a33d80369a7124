// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import UnixSignals

/// Draws a page every second until Ctrl-C. If the output is no terminal, one page follows another.
struct StatusWatch {
    var configuration: Configuration

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in signals { return } }
            group.addTask { try await draw() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func draw() async throws {
        let screen = Screen()
        // However the watch ends, the terminal is as before.
        defer { screen?.leave() }
        var rates = StatusRates()
        var last: (report: StatusReport, age: Int)?
        do {
            while true {
                // The quarantine is read as a whole, so not every second.
                let known = last.flatMap { $0.age < 10 ? $0.report : nil }
                let report = try await configuration.withStore { try await StatusReport(of: configuration, in: $0, knowing: known) }
                last = (report, known == nil ? 0 : (last?.age ?? 0) + 1)
                rates.note(report)
                let lines = StatusPage(report, rates: rates).lines
                if let screen { screen.show(lines) } else { try printOutput(lines.joined(separator: "\n") + "\n") }
                try await Task.sleep(for: .seconds(1))
            }
        } catch is CancellationError {}
    }
}

/// The terminal's alternate screen, so that earlier lines come back afterwards.
private struct Screen {
    private let console = Invocation.current.console

    /// Nil if standard output is no terminal.
    init?() {
        guard isatty(console.output) != 0 else { return nil }
        write("\u{1b}[?1049h\u{1b}[?25l")
    }

    func leave() {
        write("\u{1b}[?25h\u{1b}[?1049l")
    }

    /// Draws over the old page, so that nothing flickers.
    func show(_ lines: [String]) {
        var size = winsize()
        let isKnown = ioctl(console.output, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 && size.ws_row > 0
        let (width, height) = isKnown ? (Int(size.ws_col), Int(size.ws_row)) : (80, 24)
        let page = lines.prefix(height).map { "\($0.printable.prefix(width))\u{1b}[K" }.joined(separator: "\r\n")
        write("\u{1b}[H\(page)\u{1b}[J")
    }

    private func write(_ text: String) {
        try? console.write(text)
    }
}
