// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation
import NIOConcurrencyHelpers

struct ProgressOptions: ParsableArguments {
    @Flag(help: "Show no progress. Nothing shows it with --json, or if standard error is no terminal.") var noProgress = false

    func line(json: Bool) -> ProgressLine {
        let (console, environment) = (Invocation.current.console, Invocation.current.environment)
        let isShown = !noProgress && !json && isatty(console.error) != 0 && environment["TERM"] != "dumb"
        return ProgressLine(isShown: isShown, write: console.writeError)
    }
}

/// One line on a terminal that says how far a long command has come. Silent in a pipe.
final class ProgressLine: Sendable {
    static let silent = ProgressLine(isShown: false)

    private struct State {
        var phase = ""
        var unit = ""
        var total: Int?
        var passes = 1
        var count = 0
        var shownAt: ContinuousClock.Instant?
    }

    let isShown: Bool
    private let state = NIOLockedValueBox(State())
    private let write: @Sendable (String) -> Void

    private static let barWidth = 30

    init(isShown: Bool, write: @escaping @Sendable (String) -> Void = Console.standard.writeError) {
        (self.isShown, self.write) = (isShown, write)
    }

    /// - Parameter total: nil if nobody knows how much there is. Then the line has no bar.
    func begin(_ phase: String, of total: Int?, _ unit: String = "rows") {
        state.withLockedValue { $0 = State(phase: phase, unit: unit, total: total) }
        show { _ in }
    }

    /// - Parameter passes: how often the phase counts each row.
    func next(_ phase: String, passes: Int = 1) {
        show { state in (state.phase, state.count, state.passes, state.shownAt) = (phase, 0, passes, nil) }
    }

    func add(_ count: Int = 1) { show { $0.count += count } }

    func set(_ count: Int) { show { $0.count = count } }

    func end() {
        guard isShown else { return }
        state.withLockedValue { $0 = State() }
        write("\r\u{1B}[K")
    }

    /// Measures again and again while `body` runs, and clears the line at its end. A measure is nil if it is not known now.
    func follow<Value>(
        _ phase: String,
        of total: Int?,
        _ unit: String,
        measure: @escaping @Sendable () -> Int?,
        while body: () async throws -> Value
    ) async throws -> Value {
        guard isShown else { return try await body() }
        begin(phase, of: total, unit)
        // No child task, because it must have ended before `end()` clears the line, also where `body` throws.
        let watch = Task {
            while !Task.isCancelled {
                if let count = measure() { set(count) }
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        watch.cancel()
        // The last measure would show the line again.
        await watch.value
        end()
        return try result.get()
    }

    /// Shows the seconds while `body` runs, where nothing can be counted.
    func time<Value>(_ phase: String, while body: () async throws -> Value) async throws -> Value {
        let start = ContinuousClock.now
        return try await follow(phase, of: nil, "s", measure: { Int((ContinuousClock.now - start).components.seconds) }, while: body)
    }

    private func show(_ change: (inout State) -> Void) {
        guard isShown else { return }
        let text: String? = state.withLockedValue { state in
            change(&state)
            let now = ContinuousClock.now
            // Ten times a second. More cannot be read, and costs time.
            if let shownAt = state.shownAt, now - shownAt < .milliseconds(100) { return nil }
            state.shownAt = now
            return "\r\(Self.line(state.phase, state.count, of: state.total, state.unit, passes: state.passes))\u{1B}[K"
        }
        if let text { write(text) }
    }

    static func line(_ phase: String, _ count: Int, of total: Int?, _ unit: String, passes: Int = 1) -> String {
        let figure = "\((count / passes).grouped) \(unit)"
        guard let total else { return "\(phase)  \(figure)" }
        let share = total > 0 ? min(Double(count) / Double(total * passes), 1) : 1
        let filled = Int(share * Double(barWidth))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: barWidth - filled)
        return "\(phase)  \(bar)  \("\(Int(share * 100))".padded(to: -3)) %  \(figure)"
    }
}
