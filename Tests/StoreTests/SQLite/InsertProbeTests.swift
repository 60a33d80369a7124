// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// Whether backends can insert, as one of them would find out.
@Suite struct InsertProbeTests {
    @Test func nothingStandsInTheWayAndNothingIsWritten() async throws {
        let file = try FileUnderTest()
        let log = try Data(contentsOf: URL(filePath: file.file.path + "-wal"))
        #expect(try await file.sqlite.insertObstacle() == nil)
        #expect(try Data(contentsOf: URL(filePath: file.file.path + "-wal")) == log)
    }

    /// A reader keeps nobody out.
    @Test func anOpenTransactionOfAReaderIsNoObstacle() async throws {
        let file = try FileUnderTest()
        let reader = try OpenTransaction(.deferred, at: file.file.path)
        #expect(try await InsertProbe(path: file.file.path, patience: .milliseconds(100)).obstacle() == nil)
        try reader.end()
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/locks")))
    func aForgottenTransactionIsNamedWithItsProcess() async throws {
        let file = try FileUnderTest()
        let script = """
            import signal, sqlite3, sys
            database = sqlite3.connect(sys.argv[1], isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            print("begun", flush=True)
            signal.pause()
            """
        let shell = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", "-c", script, file.file.path])
        defer { shell.signal(SIGKILL) }
        #expect(await shell.line(containing: "begun") != nil)
        let probe = try InsertProbe(path: file.file.path, patience: .milliseconds(100))
        let obstacle = try await probe.obstacle()
        #expect(
            obstacle == "process \(shell.identifier) (python3) has kept the write lock of \(file.file.path) for more than 100 ms"
        )
        shell.signal(SIGKILL)
        await shell.exit()
        #expect(try await probe.obstacle() == nil)
    }

    /// As the kernel writes it, with a waiting lock, an open-file lock, the lock of a reader, and another file.
    @Test func theHolderStandsInTheListOfLocks() {
        let locks = """
            1: POSIX  ADVISORY  READ 17 08:01:4242 123 123
            1: -> POSIX  ADVISORY  WRITE 18 08:01:4242 120 120
            2: OFDLCK ADVISORY  WRITE -1 08:01:4242 120 120
            3: FLOCK  ADVISORY  WRITE 19 08:01:4242 0 EOF
            4: POSIX  ADVISORY  WRITE 20 08:01:14242 120 120
            5: POSIX  ADVISORY  WRITE 21 08:01:4242 121 127
            """
        #expect(KernelLock.write.holder(ofInode: 4242, in: locks) == nil)
        #expect(KernelLock.write.holder(ofInode: 4242, in: locks + "\n6: POSIX  ADVISORY  WRITE 22 08:01:4242 120 120") == 22)
        #expect(KernelLock.write.holder(ofInode: 4242, in: locks + "\n6: POSIX  ADVISORY  WRITE 23 08:01:4242 120 127") == 23)
        #expect(KernelLock.write.holder(ofInode: 4242, in: "6: POSIX  ADVISORY  WRITE 24 08:01:4242 0 EOF\n") == 24)
        #expect(KernelLock.siwatch.holder(ofInode: 4242, in: locks) == 19)
    }
}
