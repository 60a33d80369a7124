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

/// The rates of the last half minute, from the differences between reports.
struct StatusRates {
    static let answers = "answers"
    private static let longest = 30

    private var last: (at: ContinuousClock.Instant, counts: [String: Int])?
    private var rates: [String: [Double]] = [:]

    mutating func note(_ report: StatusReport, at now: ContinuousClock.Instant = .now) {
        var counts = Dictionary(uniqueKeysWithValues: report.tables.queues.map { ($0.queue, $0.settled) })
        counts[Self.answers] = report.tables.checks.answered
        if let last {
            let seconds = max((now - last.at) / .seconds(1), 0.001)
            for (name, count) in counts {
                // A daemon that starts counts its queues anew.
                let rate = Double(max(count - (last.counts[name] ?? 0), 0)) / seconds
                rates[name] = (rates[name, default: []] + [rate]).suffix(Self.longest)
            }
        }
        last = (now, counts)
    }

    /// The last rate, and a sparkline of the last half minute.
    func column(_ name: String) -> String {
        guard let rates = rates[name], let last = rates.last else { return "–".padded(to: -10) }
        let top = rates.max() ?? 0
        let line = rates.map { rate in
            top > 0 ? Array("▁▂▃▄▅▆▇█")[min(Int((rate / top * 7).rounded(.up)), 7)] : "▁"
        }
        let number = last < 10 && last > 0 ? "\((last * 10).rounded() / 10)" : "\(Int(last.rounded()))"
        return "\(number.padded(to: -10))  \(String(line))"
    }
}
