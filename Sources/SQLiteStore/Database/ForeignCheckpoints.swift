// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOConcurrencyHelpers

/// Counts how often the log was started anew that we had not written back: some other connection did, and should not have.
///
/// Each new start changes the first salt in the log's header (https://www.sqlite.org/fileformat2.html#walformat): it adds one, or, where
/// the log had been emptied, takes a random number. The sequence number beside it would do, if every connection did not count for itself.
final class ForeignCheckpoints: Sendable {
    private let logPath: String
    private let state: NIOLockedValueBox<State>

    private struct State {
        var salt: UInt32?
        /// Our last checkpoint wrote the whole log back, so that one new start is ours.
        var isOurs = true
        var count = 0
    }

    init(logPath: String) {
        self.logPath = logPath
        state = NIOLockedValueBox(State())
    }

    /// Looks at the log, before one of our checkpoints and now and then.
    func look() {
        guard let salt else { return }
        state.withLockedValue { state in
            let difference = state.salt.map { salt &- $0 } ?? 0
            // Nobody starts the log that often between two looks: the number is a random one.
            let starts = difference > 10_000 ? 1 : Int(difference)
            state.salt = salt
            guard starts > 0 else { return }
            state.count += starts - (state.isOurs ? 1 : 0)
            state.isOurs = false
        }
    }

    /// Our checkpoint wrote the whole log back, and nobody could write since the last look.
    func completedOurs() {
        state.withLockedValue { $0.isOurs = true }
    }

    /// Those found since the last call.
    func take() -> Int {
        look()
        return state.withLockedValue { state in
            defer { state.count = 0 }
            return state.count
        }
    }

    /// Nil while the log is empty. To open the log is harmless: SQLite's locks are on the other two files.
    private var salt: UInt32? {
        guard let log = try? FileHandle(forReadingFrom: URL(filePath: logPath)) else { return nil }
        defer { try? log.close() }
        guard let header = try? log.read(upToCount: 20), header.count == 20 else { return nil }
        return header.suffix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}

extension SQLiteStore {
    /// How often since the last call somebody else wrote the log back, which only we should do.
    package func takeForeignCheckpoints() -> Int {
        checkpointer?.foreign.take() ?? 0
    }
}
