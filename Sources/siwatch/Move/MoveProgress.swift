// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOConcurrencyHelpers

/// Hears how far a move has come.
protocol MoveProgress: Sendable {
    func begin(rows: Int)
    func add(rows: Int, to phase: MovePhase)
    func end()
}

enum MovePhase: String {
    case copying, proving

    /// How often each row is counted. The proof counts it on both sides.
    fileprivate var passes: Int {
        switch self {
        case .copying: 1
        case .proving: 2
        }
    }
}

/// Shows nothing: for programs, and where nobody looks.
struct SilentProgress: MoveProgress {
    func begin(rows: Int) {}
    func add(rows: Int, to phase: MovePhase) {}
    func end() {}
}

/// A progress bar on a terminal, by the number of rows.
final class ProgressBar: MoveProgress {
    private struct State {
        var total = 0
        var phase = MovePhase.copying
        var rows = 0
        var shownAt: ContinuousClock.Instant?
    }

    private let state = NIOLockedValueBox(State())
    private let write: @Sendable (String) -> Void

    private static let width = 30

    init(write: @escaping @Sendable (String) -> Void = { FileHandle.standardError.write(Data($0.utf8)) }) {
        self.write = write
    }

    func begin(rows: Int) {
        state.withLockedValue { $0 = State(total: rows) }
    }

    func add(rows: Int, to phase: MovePhase) {
        let line: String? = state.withLockedValue { state in
            if state.phase != phase { (state.phase, state.rows) = (phase, 0) }
            state.rows += rows
            let now = ContinuousClock.now
            // Ten times a second. More cannot be read, and costs time.
            if let shownAt = state.shownAt, now - shownAt < .milliseconds(100) { return nil }
            state.shownAt = now
            return Self.line(phase, rows: state.rows, of: state.total * phase.passes)
        }
        if let line { write("\r\(line)\u{1B}[K") }
    }

    /// Clears the line.
    func end() {
        write("\r\u{1B}[K")
    }

    static func line(_ phase: MovePhase, rows: Int, of total: Int) -> String {
        let share = total > 0 ? min(Double(rows) / Double(total), 1) : 1
        let filled = Int(share * Double(width))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
        let percent = String(Int(share * 100))
        let gap = String(repeating: " ", count: 3 - percent.count)
        return "\(phase.rawValue)  \(bar)  \(gap)\(percent) %  \(MoveProof.text(rows / phase.passes)) rows"
    }
}
