// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB

/// A thread that sleeps until somebody writes to the log, and then looks for a commit. The kernel reports the write, usually just before
/// the commit. `PRAGMA data_version` shows the commit itself, and takes microseconds. So the thread sees a commit within 25 ms, mostly at
/// once. If the kernel reports nothing, the thread looks 50 times a second.
final class CommitWatcher: Sendable {
    private let connection: DatabaseQueue
    private let logPath: String
    private let longestCommit: Duration

    /// - Parameter longestCommit: from the last write to the log to the commit. The loops' own timers find a slower commit.
    init(path: String, logPath: String? = nil, longestCommit: Duration = .seconds(2)) throws {
        connection = try DatabaseQueue(path: path, configuration: .readOnly)
        self.logPath = logPath ?? path + "-wal"
        self.longestCommit = longestCommit
    }

    /// Yields after each commit. Several commits may share one element. The thread ends with the iteration.
    func commits() -> AsyncStream<Void> {
        let writes = LogWrites(path: logPath)
        let first = version
        return CommitThread.commits { stop, wake in
            // -1 sleeps without end. The kernel ends the sleep.
            var idleMilliseconds: Int32 = writes == nil ? 20 : -1
            var waitMilliseconds = idleMilliseconds
            var lastWrite = ContinuousClock.now
            var last = first
            while true {
                var polled = [pollfd(fd: stop, events: Int16(POLLIN), revents: 0)]
                // Do not watch in the millisecond after a write, because a large commit makes thousands of writes.
                if let writes, waitMilliseconds != 1 { polled.append(pollfd(fd: writes.descriptor, events: Int16(POLLIN), revents: 0)) }
                poll(&polled, nfds_t(polled.count), waitMilliseconds)
                if polled[0].revents != 0 { return }
                if let writes {
                    if polled.count > 1, polled[1].revents != 0 {
                        writes.drain()
                        lastWrite = .now
                        waitMilliseconds = 1
                    } else {
                        // Start watching before the look, so that no write between the two is missed.
                        if polled.count == 1, !writes.watch() { idleMilliseconds = 20 }
                        // A commit comes after its writes are on disk, and another connection's commit may follow. A roll-back brings no
                        // commit.
                        waitMilliseconds = .now - lastWrite < self.longestCommit ? min(max(waitMilliseconds, 1) * 2, 25) : idleMilliseconds
                    }
                }
                // The loops that have work report errors of the database.
                let version = self.version
                if version != last {
                    last = version
                    wake()
                }
            }
        }
    }

    func close() throws { try connection.close() }

    private var version: Int? {
        try? connection.unsafeRead { db in try Int.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) }
    }
}

extension SQLiteStore: CommitWatch {
    package func commits() -> AsyncStream<Void> { commitWatcher?.commits() ?? AsyncStream { _ in } }
}

/// The kernel's reports of writes to one file, by inotify.
final class LogWrites: Sendable {
    let descriptor: Int32
    private let path: String

    /// Nil if the kernel does not report: the system is not Linux, or this user has no inotify instance left.
    init?(path: String) {
        #if os(Linux)
            self.path = path
            descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
            // `deinit` closes the descriptor. It runs here, too.
            guard descriptor >= 0, watch() else { return nil }
        #else
            return nil
        #endif
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Watches for one write, then stops. Each notification costs the writing process time, and a large commit makes thousands of writes.
    /// Returns whether the kernel will report.
    func watch() -> Bool { inotify_add_watch(descriptor, path, UInt32(IN_MODIFY) | UInt32(IN_ONESHOT)) >= 0 }

    func drain() {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            while read(descriptor, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
