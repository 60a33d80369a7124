// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

/// A thread that sleeps until the log is written, and then looks whether somebody has committed.
///
/// The kernel tells of the write, usually just before the commit; `PRAGMA data_version` on a connection of its own tells of the commit
/// itself, for microseconds a look. So nothing is done while nobody writes, and a commit is seen within 25 ms, mostly at once. Where the
/// kernel does not tell, the thread looks 50 times a second.
final class CommitWatcher: Sendable {
    private let connection: DatabaseQueue
    private let logPath: String
    private let longestCommit: Duration

    /// - Parameters:
    ///   - logPath: the log beside the database, where there is no reason for another.
    ///   - longestCommit: from the last write to the log to the commit. A slower one is found by the loops' own timers.
    init(path: String, logPath: String? = nil, longestCommit: Duration = .seconds(2)) throws {
        connection = try DatabaseQueue(path: path, configuration: .readOnly)
        self.logPath = logPath ?? path + "-wal"
        self.longestCommit = longestCommit
    }

    /// An element after each commit; several commits may share one. The thread ends with the iteration.
    func commits() -> AsyncStream<Void> {
        let (commits, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let stop = Pipe()
        let writes = LogWrites(path: logPath)
        let first = version
        // A thread and not a task: it blocks for as long as nothing happens.
        let thread = Thread {
            // Without end where the kernel tells.
            var idleMilliseconds: Int32 = writes == nil ? 20 : -1
            var waitMilliseconds = idleMilliseconds
            var lastWrite = ContinuousClock.now
            var last = first
            while true {
                var polled = [pollfd(fd: stop.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)]
                // Not in the millisecond after a write: a large commit is thousands of them.
                if let writes, waitMilliseconds != 1 { polled.append(pollfd(fd: writes.descriptor, events: Int16(POLLIN), revents: 0)) }
                poll(&polled, nfds_t(polled.count), waitMilliseconds)
                if polled[0].revents != 0 { return }
                if let writes {
                    if polled.count > 1, polled[1].revents != 0 {
                        writes.drain()
                        lastWrite = .now
                        waitMilliseconds = 1
                    } else {
                        // Before the look: what is written after it is told of.
                        if polled.count == 1, !writes.watch() { idleMilliseconds = 20 }
                        // A commit follows its writes when the disk has them, and another's may follow that; a roll-back never does.
                        waitMilliseconds = .now - lastWrite < self.longestCommit ? min(max(waitMilliseconds, 1) * 2, 25) : idleMilliseconds
                    }
                }
                // Trouble with the database is reported by whoever has work for it.
                let version = self.version
                if version != last {
                    last = version
                    continuation.yield()
                }
            }
        }
        thread.name = "siwatch commits"
        continuation.onTermination = { _ in try? stop.fileHandleForWriting.close() }
        thread.start()
        return commits
    }

    func close() throws {
        try connection.close()
    }

    private var version: Int? {
        try? connection.unsafeRead { db in try Int.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) }
    }
}

extension SQLiteStore: CommitWatch {
    package func commits() -> AsyncStream<Void> {
        commitWatcher?.commits() ?? AsyncStream { _ in }
    }
}
