// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// Whether backends can insert, as one of them would find out.
@Suite(.eachStore, .on(.file)) struct InsertProbeTests: ConformanceSuite {
    @Test func nothingStandsInTheWayAndNothingIsWritten() async throws {
        let log = try Data(contentsOf: URL(filePath: store.file.path + "-wal"))
        #expect(try await store.sqlite.insertObstacle() == nil)
        #expect(try Data(contentsOf: URL(filePath: store.file.path + "-wal")) == log)
    }

    /// A reader keeps nobody out.
    @Test func anOpenTransactionOfAReaderIsNoObstacle() async throws {
        let reader = try OpenTransaction(.deferred, at: store.file.path)
        #expect(try await InsertProbe(path: store.file.path, patience: .milliseconds(100)).obstacle() == nil)
        try reader.end()
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/locks")))
    func aForgottenTransactionIsNamedWithItsProcess() async throws {
        let script = """
            import signal, sqlite3, sys
            database = sqlite3.connect(sys.argv[1], isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            print("begun", flush=True)
            signal.pause()
            """
        let shell = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", "-c", script, store.file.path])
        defer { shell.signal(SIGKILL) }
        #expect(await shell.line(containing: "begun") != nil)
        let probe = try InsertProbe(path: store.file.path, patience: .milliseconds(100))
        let obstacle = try await probe.obstacle()
        #expect(
            obstacle == "process \(shell.identifier) (python3) has kept the write lock of \(store.file.path) for more than 100 ms; "
                + "sudo kill \(shell.identifier) rolls its transaction back"
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

    /// SQLite plays such a journal back when the database is opened, and deletes the file that it names.
    @Test func aPlantedJournalDeletesNothingAndIsNamed() async throws {
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        let path = file.path
        let victim = URL(filePath: path + ".victim")
        try Data("a key".utf8).write(to: victim)
        try Self.journal(of: path, naming: victim.path).write(to: URL(filePath: path + "-journal"))
        let store = try SQLiteStore.open(DatabaseFile(path: path))
        #expect(FileManager.default.fileExists(atPath: victim.path))
        #expect(FileManager.default.fileExists(atPath: path + "-journal"))
        #expect(try await store.insertObstacle()?.hasPrefix("\(path)-journal keeps new connections out") == true)
        try FileManager.default.removeItem(atPath: path + "-journal")
        #expect(try await store.insertObstacle() == nil)
        try store.close()
    }

    /// A journal without pages, which names a super-journal, in the form of SQLite's pager.c.
    private static func journal(of path: String, naming superJournal: String) throws -> Data {
        let database = try Data(contentsOf: URL(filePath: path))
        let magic = Data([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7])
        func number(_ value: some FixedWidthInteger) -> Data {
            withUnsafeBytes(of: UInt32(truncatingIfNeeded: value).bigEndian) { Data($0) }
        }
        let pageSize = Int(database[16]) << 8 + Int(database[17])
        var journal = magic + number(0) + number(1) + number(database.count / pageSize) + number(512) + number(pageSize)
        journal += Data(count: 512 - journal.count)
        let name = Data(superJournal.utf8)
        let sum = name.reduce(0) { $0 + Int(Int8(bitPattern: $1)) }
        return journal + number(0x4000_0000 / pageSize + 1) + name + number(name.count) + number(sum) + magic
    }

    /// New connections cannot open the file, and this process, which has it open, would not feel it.
    @Test func aLockOfTheWholeFileIsSaidWithItsHolder() async throws {
        let script = """
            import fcntl, os, signal, sys
            file = os.open(sys.argv[1], os.O_RDWR)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0x40000000)
            print("locked", flush=True)
            signal.pause()
            """
        let shell = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", "-c", script, store.file.path])
        defer { shell.signal(SIGKILL) }
        #expect(await shell.line(containing: "locked") != nil)
        let obstacle = try await store.sqlite.insertObstacle()
        #expect(obstacle?.hasPrefix("process \(shell.identifier) (python3) keeps the file ") == true, "\(obstacle ?? "none")")
        shell.signal(SIGKILL)
        await shell.exit()
        #expect(try await store.sqlite.insertObstacle() == nil)
    }
}
