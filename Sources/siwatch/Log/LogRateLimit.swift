// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Limits how many lines of one event are written, so that a flood of them does not hide other events.
struct LogRateLimit {
    /// How many lines of one event pass in each window.
    static let burst = 50
    static let window = Duration.seconds(10)

    private struct Window {
        var start: ContinuousClock.Instant
        var passed = 0
        var held = 0
    }

    private var windows: [String: Window] = [:]
    private var suppressed: [String: Int] = [:]

    /// - Returns: how many lines of the event were held back before this one. Nil if this line is held back too.
    mutating func admit(_ event: String, at now: ContinuousClock.Instant) -> Int? {
        var window = windows[event] ?? Window(start: now)
        defer { windows[event] = window }
        if now - window.start >= Self.window { window = Window(start: now, held: window.held) }
        guard window.passed < Self.burst else {
            window.held += 1
            suppressed[event, default: 0] += 1
            return nil
        }
        window.passed += 1
        defer { window.held = 0 }
        return window.held
    }

    mutating func takeSuppressed() -> [String: Int] {
        defer { suppressed = [:] }
        return suppressed
    }
}
