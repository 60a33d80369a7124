// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import DaemonHarness
import Foundation
import Testing

@testable import CredentialCore
@testable import siwatch

/// `siwatch import --undo`, beside a daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct ImportUndoCommandTests {
    private static let header = "user_id,client_id,refresh_token,granted_at\n"

    private func lines(_ signIns: [SignIn]) -> String {
        signIns.map { "\($0.userID),\($0.clientID),\($0.refreshToken ?? ""),\($0.grantedAt.milliseconds)\n" }.joined()
    }

    /// More than an undo takes at once.
    private static let many = Length.of(6_000, full: 20_000)

    private func strangers(_ count: Int) -> String {
        (1...count).map { "\(stranger($0)),com.example.app,r.never.\($0),1700000000\n" }.joined()
    }

    /// Imports these lines without a trial.
    ///
    /// - Returns: the name of the import.
    private func importLines(_ text: String, in site: Site) async throws -> String {
        let path = site.folder.url.appending(path: "users.csv").path
        try Data((Self.header + text).utf8).write(to: URL(filePath: path))
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait")
        #expect(status == 0, "\(output)")
        let name = try #require(output.joined(separator: "\n").firstMatch(of: /Import ([0-9a-f]{12})/)).1
        #expect(output.contains { $0.contains("siwatch import --undo \(name) takes the import back.") }, "\(output)")
        return String(name)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aWrongImportIsTakenBackAsAWhole() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(20))
            let name = try await importLines(strangers(1000), in: site)
            try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 1020)
            let rehearsal = try await site.folder.siwatch("import", "--undo", name, "--dry-run")
            let would = "Import \(name): 1,000 credentials and 0 waiting sign-ins would go."
            #expect(rehearsal.status == 0 && rehearsal.output == [would], "\(rehearsal.output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 1020)
            let undo = try await site.folder.siwatch("import", "--undo", name, "--yes")
            let gone = "Import \(name): 1,000 credentials and 0 waiting sign-ins are gone."
            #expect(undo.status == 0 && undo.output == [gone], "\(undo.output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 20)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 1020)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 20)
            let again = try await site.folder.siwatch("import", "--undo", name, "--yes", "--json")
            #expect(again.status == 0 && again.output.contains("  \"removed\" : 0,"), "\(again.output)")
            // The keys of the batches are gone too.
            #expect(try await importLines(strangers(1000), in: site) == name)
            try await site.backend.until("SELECT COUNT(*) FROM credential", is: 1020)
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func whatABackendOrAppleToldStays() async throws {
        try await site.daemon { _ in
            let signIns = try await site.apple.signIn(60)
            let users = signIns.map(\.userID)
            try await site.settle(Array(signIns[0..<10]))
            let name = try await importLines(lines(signIns), in: site)
            try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 70)
            // The same token, another token, an event of Apple's, and a request to revoke.
            try await site.settle(Array(signIns[10..<20]))
            try await site.settle(try await site.apple.signIn(Array(users[20..<30]), clientID: signIns[0].clientID))
            try await site.tell(try await site.apple.notify(RevokeConsent(), users: Array(users[30..<40])))
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 10)
            try await site.backend.insert(revocationsOf: Array(users[40..<50]), at: signIns[0].clientID)
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log", is: 10)
            let (status, output) = try await site.folder.siwatch("import", "--undo", name, "--yes")
            #expect(status == 0, "\(output)")
            #expect(
                output == [
                    "Import \(name): 10 credentials and 0 waiting sign-ins are gone.",
                    """
                    50 more of its sign-ins removed nothing: siwatch knew the user before, something else has told of the user too, \
                    another line names the same credential, or siwatch had rejected the line
                    """,
                ],
                "\(output)"
            )
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 50)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 30)
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aKilledUndoGoesOn() async throws {
        let name = try await importLines(strangers(Self.many), in: site)
        let first = try site.folder.start("import", "--undo", name, "--yes")
        try await site.backend.first(of: "SELECT COUNT(*) FROM grant_queue", within: .seconds(120)) { $0 < Self.many }
        first.signal(SIGKILL)
        await first.exit()
        let (status, output) = try await site.folder.siwatch("import", "--undo", name, "--yes")
        #expect(status == 0, "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    /// The daemon takes rows while the undo runs, and no user of the import is left.
    @Test(.site(onEach: SiteDatabase.allCases)) func anUndoBesideABusyDaemonLeavesNobody() async throws {
        let name = try await importLines(strangers(Self.many), in: site)
        try await site.daemon { _ in
            try await site.backend.first(of: "SELECT COUNT(*) FROM credential", within: .seconds(120)) { $0 > 0 }
            let backend = try await site.apple.signIn(50)
            try await site.backend.insert(backend)
            let (status, output) = try await site.folder.siwatch("import", "--undo", name, "--yes")
            #expect(status == 0, "\(output)")
            try await site.backend.until("SELECT COUNT(*) FROM grant_queue", is: 0)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 50)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE imported_by IS NOT NULL") == 0)
        }
    }

    /// The import waits for its pipe, and would tell the rest after the undo.
    @Test(.site(onEach: SiteDatabase.allCases)) func anImportThatRunsTellsNothingAfterItsUndo() async throws {
        let path = site.folder.url.appending(path: "pipe").path
        #expect(mkfifo(path, 0o600) == 0)
        // Opened for both, so that neither end waits for the other.
        let pipe = FileHandle(fileDescriptor: open(path, O_RDWR | O_CLOEXEC), closeOnDealloc: false)
        let first = try site.folder.start("import", path, "--yes", "--no-trial", "--no-wait")
        // More than 64 KiB and a thousand lines: siwatch reads so much before it tells the first batch.
        let end = String(repeating: "x", count: 80)
        func lines(_ numbers: ClosedRange<Int>) -> Data {
            Data(numbers.map { "\(stranger($0)),com.example.app,r.\($0).\(end),1700000000\n" }.joined().utf8)
        }
        try pipe.write(contentsOf: Data(Self.header.utf8) + lines(1...1000))
        try await site.backend.until("SELECT COUNT(*) FROM grant_queue", is: 512)
        let output = first.output.joined(separator: "\n")
        let name = String(try #require(output.firstMatch(of: /Import ([0-9a-f]{12})/)).1)
        let undo = try await site.folder.siwatch("import", "--undo", name, "--yes")
        let gone = "Import \(name): 0 credentials and 512 waiting sign-ins are gone."
        #expect(undo.status == 0 && undo.output == [gone], "\(undo.output)")
        // The pipe holds so many, even if siwatch reads no more of it.
        try pipe.write(contentsOf: lines(1001...1300))
        try pipe.close()
        #expect(await first.exit() == 1, "\(first.output)")
        let sentence = "siwatch: siwatch no longer knows the lines that this command told before"
        #expect(first.output.contains { $0.hasPrefix(sentence) }, "\(first.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    /// It has told all of its lines when the undo takes them back, and only then hears that no other line comes.
    @Test(.site(onEach: SiteDatabase.allCases)) func anImportHearsAtItsEndThatItWasTakenBack() async throws {
        let path = site.folder.url.appending(path: "pipe").path
        #expect(mkfifo(path, 0o600) == 0)
        let pipe = FileHandle(fileDescriptor: open(path, O_RDWR | O_CLOEXEC), closeOnDealloc: false)
        let first = try site.folder.start("import", path, "--yes", "--no-trial", "--no-wait")
        // Two whole batches, after the 1,000 lines and 64 KiB that siwatch reads first.
        let end = String(repeating: "x", count: 80)
        let lines = (1...1024).map { "\(stranger($0)),com.example.app,r.\($0).\(end),1700000000\n" }.joined()
        try pipe.write(contentsOf: Data((Self.header + lines).utf8))
        try await site.backend.until("SELECT COUNT(*) FROM grant_queue", is: 1024)
        let name = String(try #require(first.output.joined(separator: "\n").firstMatch(of: /Import ([0-9a-f]{12})/)).1)
        let undo = try await site.folder.siwatch("import", "--undo", name, "--yes")
        #expect(undo.status == 0 && undo.output.joined().contains("1,024 waiting sign-ins are gone."), "\(undo.output)")
        try pipe.close()
        #expect(await first.exit() == 1, "\(first.output)")
        let sentence = "siwatch: siwatch no longer knows the lines that this command told before: an undo took the import back"
        #expect(first.output.contains { $0.hasPrefix(sentence) }, "\(first.output)")
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func pipesThatBeginAlikeSayThatTheyAreOneImport() async throws {
        func importPipe(_ text: String) async throws -> [String] {
            let path = site.folder.url.appending(path: "pipe").path
            unlink(path)
            #expect(mkfifo(path, 0o600) == 0)
            let process = try site.folder.start("import", path, "--yes", "--no-trial", "--no-wait")
            Thread.detachNewThread {
                let end = FileHandle(forWritingAtPath: path)
                try? end?.write(contentsOf: Data(text.utf8))
                try? end?.close()
            }
            #expect(await process.exit() == 0, "\(process.output)")
            return process.output
        }
        let text = Self.header + strangers(3000)
        let first = try await importPipe(text)
        #expect(!first.joined().contains("A pipe that began with the same 64 KiB"), "\(first)")
        let second = try await importPipe(text + "\(stranger(9_999_999)),com.example.app,,1700000000\n")
        #expect(second.contains { $0.hasPrefix("A pipe that began with the same 64 KiB was told at ") }, "\(second)")
        let name = String(try #require(second.joined(separator: "\n").firstMatch(of: /Import ([0-9a-f]{12})/)).1)
        #expect(first.contains { $0.contains(name) }, "\(first)")
        let undo = try await site.folder.siwatch("import", "--undo", name, "--yes")
        #expect(undo.status == 0, "\(undo.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func anUnknownImportIsNamed() async throws {
        let (none, words) = try await site.folder.siwatch("import", "--undo", "0123456789ab", "--yes")
        #expect(none == 64 && words.last?.hasSuffix("it knows no import") == true, "\(words)")
        let name = try await importLines(strangers(3), in: site)
        let (status, output) = try await site.folder.siwatch("import", "--undo", "0123456789ab", "--yes")
        #expect(status == 64 && output.last?.contains("it knows \(name) of ") == true, "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 3)
    }

    @Test(.site) func nothingIsTakenBackWithoutAYes() async throws {
        let name = try await importLines(strangers(3), in: site)
        let (status, output) = try await site.folder.siwatch("import", "--undo", name)
        #expect(status == 64, "\(output)")
        #expect(output.contains("Import \(name): 0 credentials and 3 waiting sign-ins would go."), "\(output)")
        #expect(output.last == "siwatch: nothing was taken back; repeat the command with --yes", "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 3)
    }
}

struct ImportReversalTests {
    private func report(claimed: Int = 0, isRehearsal: Bool = false, days: Int = 0) -> ImportReversal.Report {
        let start = Timestamp(seconds: 1_700_000_000)
        let told = ToldImport(importID: "0123456789ab", signIns: 2, from: start, to: start.advanced(by: .hours(24 * days)))
        var report = ImportReversal.Report(told, isRehearsal: isRehearsal)
        report.claimed = claimed
        return report
    }

    /// A job may repeat the command then.
    @Test func anUndoThatIsNotDoneEndsWith69() {
        #expect(report(claimed: 1).failure?.code.rawValue == 69)
        #expect(report(claimed: 1).text.contains("waits for 1: siwatch is settling them"))
        #expect(report(claimed: 0).failure == nil)
        #expect(report(claimed: 1, isRehearsal: true).failure == nil)
    }

    @Test func severalImportsOfOneNameAreNamed() {
        let times = "told from 2023-11-14T22:13:20.000Z to 2023-11-16T22:13:20.000Z"
        #expect(report(days: 2).text.contains("\(times): these are several imports of one name, and all of them go"))
        #expect(!report(days: 1).text.contains("several imports"))
    }

    @Test func thePortionsAddUp() {
        var (report, undone) = (report(), UndoneImport())
        for (removed, taken, claimed) in [(0, 500, 3), (40, 0, 0)] {
            (undone.removed, undone.taken, undone.claimed, undone.stayed) = (removed, taken, claimed, 2)
            report.add(undone)
        }
        #expect(report.removed == 40 && report.taken == 500 && report.claimed == 0 && report.stayed == 2)
    }
}
