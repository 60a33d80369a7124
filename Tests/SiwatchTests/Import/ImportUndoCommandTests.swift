// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import DaemonHarness
import Foundation
import Testing

@testable import CredentialCore
@testable import siwatch

@Suite(.timeLimit(.minutes(10))) struct ImportUndoCommandTests {
    /// More than an undo takes at once.
    private static let many = Length.of(6_000, full: 20_000)

    /// Imports these lines without a trial, and returns the import's name.
    private func importLines(_ text: String, in site: Site) async throws -> String {
        let path = site.folder.path("users.csv")
        try site.folder.write(ImportCommandTests.header + text, to: "users.csv")
        let output = try await site.folder.expect("import \(path) --yes --no-trial --no-wait", 0)
        let name = try name(in: output)
        #expect(output.contains { $0.contains("siwatch import --undo \(name) takes the import back.") }, "\(output)")
        return name
    }

    private func name(in output: [String]) throws -> String {
        String(try #require(output.joined(separator: "\n").firstMatch(of: /Import ([0-9a-f]{12})/)).1)
    }

    @Test(.daemon(onEach: SiteDatabase.allCases)) func aWrongImportIsTakenBackAsAWhole() async throws {
        try await site.settle(try await site.apple.signIn(20))
        let name = try await importLines(strangers(1000), in: site)
        try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 1020)
        let rows = "Import \(name): 1,000 credentials and 0 waiting sign-ins"
        #expect(try await site.folder.expect("import --undo \(name) --dry-run", 0) == ["\(rows) would go."])
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 1020)
        #expect(try await site.folder.expect("import --undo \(name) --yes", 0) == ["\(rows) are gone."])
        try await site.backend.expect(["credential": 20, "grant_log": 1020, "credential_state WHERE state = 'authorized'": 20])
        try await site.folder.expect("import --undo \(name) --yes --json", 0, "\n  \"removed\" : 0,\n")
        // The keys of the batches are gone too.
        #expect(try await importLines(strangers(1000), in: site) == name)
        try await site.backend.until("SELECT COUNT(*) FROM credential", is: 1020)
    }

    @Test(.daemon(onEach: SiteDatabase.allCases)) func whatABackendOrAppleToldStays() async throws {
        let signIns = try await site.apple.signIn(60)
        let users = signIns.map(\.userID)
        try await site.settle(Array(signIns[0..<10]))
        let name = try await importLines(linesTelling(signIns), in: site)
        try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 70)
        // The same token, another token, an event of Apple's, and a request to revoke.
        try await site.settle(Array(signIns[10..<20]))
        try await site.settle(try await site.apple.signIn(Array(users[20..<30]), clientID: signIns[0].clientID))
        try await site.tell(try await site.apple.notify(RevokeConsent(), users: Array(users[30..<40])))
        try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 10)
        try await site.backend.insert(revocationsOf: Array(users[40..<50]), at: signIns[0].clientID)
        try await site.backend.until("SELECT COUNT(*) FROM revocation_log", is: 10)
        let output = try await site.folder.expect("import --undo \(name) --yes", 0)
        #expect(
            output == [
                "Import \(name): 10 credentials and 0 waiting sign-ins are gone.",
                """
                50 more of its sign-ins removed nothing: siwatch knew the user before, something else has told of the user too, \
                another line names the same credential, or siwatch had rejected the line
                """,
            ]
        )
        try await site.backend.expect(["credential": 50, "credential_state WHERE state = 'authorized'": 30])
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aKilledUndoGoesOn() async throws {
        let name = try await importLines(strangers(Self.many), in: site)
        let first = try site.folder.start("import", "--undo", name, "--yes")
        try await site.backend.first(of: "SELECT COUNT(*) FROM grant_queue", within: .seconds(120)) { $0 < Self.many }
        first.signal(SIGKILL)
        await first.exit()
        try await site.folder.expect("import --undo \(name) --yes", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func anUndoBesideABusyDaemonLeavesNobody() async throws {
        let name = try await importLines(strangers(Self.many), in: site)
        try await site.daemon { _ in
            try await site.backend.first(of: "SELECT COUNT(*) FROM credential", within: .seconds(120)) { $0 > 0 }
            let backend = try await site.apple.signIn(50)
            try await site.backend.insert(backend)
            try await site.folder.expect("import --undo \(name) --yes", 0)
            try await site.backend.until("SELECT COUNT(*) FROM grant_queue", is: 0)
            try await site.backend.expect(["credential": 50, "credential WHERE imported_by IS NOT NULL": 0])
        }
    }

    /// Imports these lines by a pipe that stays open, takes the import back when siwatch has told so many of them, writes more, and expects
    /// the import to notice.
    private func undo(lines: ClosedRange<Int>, after told: Int, saying gone: String, then more: ClosedRange<Int>?) async throws {
        let path = site.folder.path("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        // Opened for both, so that neither end waits for the other.
        let pipe = FileHandle(fileDescriptor: open(path, O_RDWR | O_CLOEXEC), closeOnDealloc: false)
        let first = try site.folder.start("import", path, "--yes", "--no-trial", "--no-wait")
        // More than 64 KiB and a thousand lines: siwatch reads so much before it tells the first batch.
        let end = String(repeating: "x", count: 80)
        func text(_ numbers: ClosedRange<Int>) -> Data {
            Data(numbers.map { "\(stranger($0)),com.example.app,r.\($0).\(end),1700000000\n" }.joined().utf8)
        }
        try pipe.write(contentsOf: Data(ImportCommandTests.header.utf8) + text(lines))
        try await site.backend.until("SELECT COUNT(*) FROM grant_queue", is: told)
        let name = try name(in: first.output)
        #expect(try await site.folder.expect("import --undo \(name) --yes", 0) == ["Import \(name): 0 credentials and \(gone)"])
        // The pipe holds so many, even if siwatch reads no more of it.
        if let more { try pipe.write(contentsOf: text(more)) }
        try pipe.close()
        #expect(await first.exit() == 1, "\(first.output)")
        let sentence = "siwatch: siwatch no longer knows the lines that this command told before: an undo took the import back"
        #expect(first.output.contains { $0.hasPrefix(sentence) }, "\(first.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    /// The import waits for its pipe, and would tell the rest after the undo.
    @Test(.site(onEach: SiteDatabase.allCases)) func anImportThatRunsTellsNothingAfterItsUndo() async throws {
        try await undo(lines: 1...1000, after: 512, saying: "512 waiting sign-ins are gone.", then: 1001...1300)
    }

    /// It has told two whole batches, all of its lines, when the undo takes them back, and only then hears that no other line comes.
    @Test(.site(onEach: SiteDatabase.allCases)) func anImportHearsAtItsEndThatItWasTakenBack() async throws {
        try await undo(lines: 1...1024, after: 1024, saying: "1,024 waiting sign-ins are gone.", then: nil)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func pipesThatBeginAlikeSayThatTheyAreOneImport() async throws {
        func importPipe(_ text: String) async throws -> [String] {
            let path = site.folder.path("pipe")
            unlink(path)
            writeOnce(text, toPipe: path)
            return try await site.folder.expect("import \(path) --yes --no-trial --no-wait", 0)
        }
        let text = ImportCommandTests.header + strangers(3000)
        let first = try await importPipe(text)
        #expect(!first.joined().contains("A pipe that began with the same 64 KiB"), "\(first)")
        let second = try await importPipe(text + "\(stranger(9_999_999)),com.example.app,,1700000000\n")
        #expect(second.contains { $0.hasPrefix("A pipe that began with the same 64 KiB was told at ") }, "\(second)")
        let name = try name(in: second)
        #expect(first.contains { $0.contains(name) }, "\(first)")
        try await site.folder.expect("import --undo \(name) --yes", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func nothingIsTakenBackOfAnUnknownImportOrWithoutAYes() async throws {
        let none = try await site.folder.expect("import --undo 0123456789ab --yes", 64)
        #expect(none.last?.hasSuffix("it knows no import") == true, "\(none)")
        let name = try await importLines(strangers(3), in: site)
        let unknown = try await site.folder.expect("import --undo 0123456789ab --yes", 64)
        #expect(unknown.last?.contains("it knows \(name) of ") == true, "\(unknown)")
        let would = "\nImport \(name): 0 credentials and 3 waiting sign-ins would go.\n"
        let output = try await site.folder.expect("import --undo \(name)", 64, would)
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
