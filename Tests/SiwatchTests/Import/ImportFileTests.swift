// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

struct ImportFileTests {
    private static let header = "user_id,refresh_token,granted_at\n"

    private func open(_ path: String, clientID: String = "app", grantedAt: String? = nil) throws -> ImportFile {
        let now = Timestamp(milliseconds: 1_750_000_000_000)
        return try ImportFile(path, clientID: clientID, grantedAt: grantedAt, anyID: true, known: ["app", "web"], now: now)
    }

    private func lines(_ count: Int) -> String { (1...count).map { "user\($0),r.\($0),1700000000\n" }.joined() }

    private func id(
        _ text: String,
        clientID: String = "app",
        grantedAt: String? = nil,
        in folder: TemporaryFolder
    ) throws -> String {
        try Data(text.utf8).write(to: URL(filePath: folder.path("a.csv")))
        var file = try open(folder.path("a.csv"), clientID: clientID, grantedAt: grantedAt)
        _ = try file.survey(.silent)
        return file.id
    }

    /// The last line of a long file counts as well as the first.
    @Test func theIdIsThatOfTheWholeFileAndOfItsOptions() throws {
        let folder = try TemporaryFolder()
        let text = Self.header + lines(10_000)
        let first = try id(text, in: folder)
        #expect(first.count == 12)
        #expect(try id(text, in: folder) == first)
        #expect(try id(text + "late,r.late,1700000000\n", in: folder) != first)
        #expect(try id(text, clientID: "web", in: folder) != first)
        // Otherwise an undo of the import with a wrong time would take the one with the right time back too.
        #expect(try id(text, grantedAt: "1735689600", in: folder) != first)
    }

    @Test func aFileThatChangesAfterTheSurveyIsToldNoFurther() throws {
        let folder = try TemporaryFolder()
        let url = URL(filePath: folder.path("a.csv"))
        try Data((Self.header + lines(3)).utf8).write(to: url)
        var file = try open(url.path)
        // `#expect` cannot call what changes a value.
        let count = try file.survey(.silent).count
        let line = try file.next()?.line
        #expect(count == 3 && line == 2)
        let writer = try FileHandle(forWritingTo: url)
        try writer.seekToEnd()
        try writer.write(contentsOf: Data("late,r.late,1700000000\n".utf8))
        try writer.close()
        let failure = #expect(throws: CommandFailure.self) { try file.next() }
        #expect(failure?.description.contains("has changed while siwatch import read it") == true)
    }

    @Test func theSurveyOfAPipeStopsAfterFourMebibytes() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        // A hundred lines of 100 kB.
        let long = String(repeating: "x", count: 100_000)
        let text = "user_id,refresh_token,granted_at,note\n" + (1...100).map { "user\($0),r.\($0),1700000000,\(long)\n" }.joined()
        Thread.detachNewThread {
            let end = FileHandle(forWritingAtPath: path)
            try? end?.write(contentsOf: Data(text.utf8))
            try? end?.close()
        }
        var file = try open(path)
        let survey = try file.survey(.silent)
        #expect(!survey.isWhole && (40...50).contains(survey.count))
        var count = 0
        while try file.next() != nil { count += 1 }
        #expect(count == 100)
    }

    @Test func aPipeThatBreaksOffIsToldUpToThere() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let text = Self.header + lines(3) + "\"open"
        Thread.detachNewThread {
            let end = FileHandle(forWritingAtPath: path)
            try? end?.write(contentsOf: Data(text.utf8))
            try? end?.close()
        }
        var file = try open(path)
        let end = try file.survey(.silent).end
        #expect(end?.contains("line 5: a quote opens and does not close") == true)
        for line in 2...4 {
            let record = try file.next()
            #expect(record?.line == line)
        }
        let failure = #expect(throws: CommandFailure.self) { try file.next() }
        #expect(failure?.description == end)
    }
}
