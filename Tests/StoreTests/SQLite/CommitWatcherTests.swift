// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import SQLiteStore

/// The thread that sees other processes' commits. Each test ends when the thread sees one, and hangs if it does not.
@Suite(.eachStore, .on(.file), .timeLimit(.minutes(5))) struct CommitWatcherTests: ConformanceSuite {
    @Test func seesEveryCommit() async throws {
        var commits = try patientWatcher().commits().makeAsyncIterator()
        for _ in 1...20 {
            try await store.receive()
            await commits.next()
        }
    }

    private func patientWatcher() throws -> CommitWatcher {
        try CommitWatcher(path: store.file.path, longestCommit: .seconds(300))
    }

    /// A backend writes the log's first page long before its commit, so the thread must look again.
    @Test func seesACommitThatComesLongAfterItsWrites() async throws {
        var commits = try patientWatcher().commits().makeAsyncIterator()
        try await store.run("PRAGMA cache_size = 2")
        try await store.insert(2_000, into: "notification_queue (payload)", "printf('%.1000c', 'x')")
        await commits.next()
    }

    /// The watcher looks twice after the first reported write, and then sleeps until the next. So it must have asked for that one.
    @Test func isToldOfOneWriteAfterAnother() async throws {
        let watcher = try CommitWatcher(path: store.file.path, longestCommit: .zero)
        var commits = watcher.commits().makeAsyncIterator()
        let backend = Task { while !Task.isCancelled { try await store.receive() } }
        for _ in 1...5 { await commits.next() }
        backend.cancel()
        // In the middle of an insert it throws this error.
        do { try await backend.value } catch is CancellationError {}
    }

    @Test func looksWhereTheKernelDoesNotTell() async throws {
        let watcher = try CommitWatcher(path: store.file.path, logPath: "/nowhere/at-all-wal")
        var commits = watcher.commits().makeAsyncIterator()
        for _ in 1...3 {
            try await store.receive()
            await commits.next()
        }
    }

    /// A descriptor closed twice may by then be another file's: a database's, for example, whose next read fails.
    @Test func closesNothingOfOthersWhereTheKernelDoesNotTell() async throws {
        let others = Task {
            while !Task.isCancelled {
                let descriptors = (1...8).map { _ in open("/dev/null", O_RDONLY | O_CLOEXEC) }
                for descriptor in descriptors { #expect(close(descriptor) == 0) }
            }
        }
        for _ in 1...50_000 { #expect(LogWrites(path: "/nowhere/at-all-wal") == nil) }
        others.cancel()
        await others.value
    }

    @Test func endsWithItsReader() async throws {
        weak var held: CommitWatcher?
        do {
            let watcher = try CommitWatcher(path: store.file.path)
            held = watcher
            let reading = Task { for await _ in watcher.commits() {} }
            reading.cancel()
            await reading.value
        }
        // The thread holds it until its end.
        try await eventually { held == nil }
    }
}
