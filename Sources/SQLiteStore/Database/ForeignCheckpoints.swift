// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOConcurrencyHelpers

/// Counts the restarts of the log that siwatch's own checkpoints do not explain. Another connection made these checkpoints, and should not.
///
/// Each restart changes the first salt in the log's header (https://www.sqlite.org/fileformat2.html#walformat). SQLite adds one, or takes a
/// random number if the log was empty. The sequence number beside it does not help, because every connection counts its own.
final class ForeignCheckpoints: Sendable {
    private let logPath: String
    private let state: NIOLockedValueBox<State>

    private struct State {
        var salt: UInt32?
        /// siwatch's last checkpoint wrote the whole log back, so one restart is its own.
        var isOurs = true
        var count = 0
    }

    init(logPath: String) {
        self.logPath = logPath
        state = NIOLockedValueBox(State())
    }

    /// Looks at the log. Call it before each of siwatch's checkpoints, and now and then.
    func look() {
        guard let salt else { return }
        state.withLockedValue { state in
            let difference = state.salt.map { salt &- $0 } ?? 0
            // Nobody restarts the log that often between two looks, so the number is random.
            let starts = difference > 10_000 ? 1 : Int(difference)
            state.salt = salt
            guard starts > 0 else { return }
            state.count += starts - (state.isOurs ? 1 : 0)
            state.isOurs = false
        }
    }

    /// siwatch's checkpoint wrote the whole log back, and nobody could write since the last look.
    func completedOurs() {
        state.withLockedValue { $0.isOurs = true }
    }

    /// The restarts found since the last call.
    func take() -> Int {
        look()
        return state.withLockedValue { state in
            defer { state.count = 0 }
            return state.count
        }
    }

    /// Nil while the log is empty. Opening the log is harmless, because SQLite's locks are on the other two files.
    private var salt: UInt32? {
        guard let log = try? FileHandle(forReadingFrom: URL(filePath: logPath)) else { return nil }
        defer { try? log.close() }
        guard let header = try? log.read(upToCount: 20), header.count == 20 else { return nil }
        return header.suffix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}

extension SQLiteStore {
    /// How often since the last call another connection wrote the log back. Only siwatch should do that.
    package func takeForeignCheckpoints() -> Int {
        checkpointer?.foreign.take() ?? 0
    }
}
