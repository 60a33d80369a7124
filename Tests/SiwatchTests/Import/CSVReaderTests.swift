// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

struct CSVReaderTests {
    private func read(_ text: String) throws -> [CSVRecord] { try read(Array(text.utf8)) }

    private func read(_ bytes: [UInt8]) throws -> [CSVRecord] {
        let folder = try TemporaryFolder()
        try Data(bytes).write(to: URL(filePath: folder.path("a.csv")))
        let descriptor = open(folder.path("a.csv"), O_RDONLY)
        defer { close(descriptor) }
        var reader = try CSVReader(descriptor: descriptor, name: "a.csv")
        var records: [CSVRecord] = []
        while let record = try reader.next() { records.append(record) }
        return records
    }

    private func fields(_ text: String) throws -> [[String]] {
        try read(text).map { $0.fields.map { String(decoding: $0, as: UTF8.self) } }
    }

    @Test(
        arguments: [
            ("a,b\n1,2\n", [["a", "b"], ["1", "2"]]), ("a,b\r\n1,2\r\n", [["a", "b"], ["1", "2"]]),
            ("\u{FEFF}a,b\n1,2", [["a", "b"], ["1", "2"]]), ("a;b\n1;2", [["a", "b"], ["1", "2"]]),
            ("a\tb\n1,5\t2", [["a", "b"], ["1,5", "2"]]), ("a,b\n\"1,\"\"x\"\"\n2\",\"\"\r\n", [["a", "b"], ["1,\"x\"\n2", ""]]),
            ("\"a\",b\n,\n\n\r\n", [["a", "b"], ["", ""]]), ("a,b\n1\"2,3\"\n", [["a", "b"], ["1\"2", "3\""]]),
            ("a\n\"b\r\n\"\r\n", [["a"], ["b\r\n"]]), ("", []),
        ] as [(String, [[String]])]
    )
    func recordsAreThoseOfRFC4180(_ text: String, _ expected: [[String]]) throws {
        #expect(try fields(text) == expected)
    }

    @Test func linesAreThoseOfTheFile() throws {
        #expect(try read("a\n\"1\n2\"\n\n3").map(\.line) == [1, 2, 5])
    }

    /// Longer than the reader's buffer.
    @Test func aLongFileIsReadInPortions() throws {
        let lines = (0..<60_000).map { "\($0),\"x\n\($0)\"" }
        let records = try read("n,t\n" + lines.joined(separator: "\r\n"))
        #expect(records.count == 60_001)
        #expect(records[60_000].fields == [Array("59999".utf8), Array("x\n59999".utf8)] && records[60_000].line == 120_000)
    }

    @Test func aQuoteThatDoesNotCloseIsNamedWithItsLine() throws {
        for text in ["a\nb\n\"c\nd", "a\nb\n\"c" + String(repeating: "\nd", count: CSVReader.longestRecord)] {
            let failure = #expect(throws: CommandFailure.self) { try read(text) }
            #expect(failure?.description.hasPrefix("a.csv, line 3: a quote opens and does not close; ") == true)
        }
    }

    @Test func aLineThatDoesNotEndIsNamed() throws {
        let failure = #expect(throws: CommandFailure.self) { try read("a\n" + String(repeating: "b", count: CSVReader.longestRecord + 1)) }
        #expect(failure?.description.hasPrefix("a.csv, line 2: the line is longer than 1 MiB; ") == true)
        #expect(try read("a\n" + String(repeating: "b", count: CSVReader.longestRecord)).count == 2)
    }

    @Test func onlyTheFirstFieldsOfALineAreKept() throws {
        let counts = try read("a\n" + String(repeating: ",", count: 100_000) + "\nb,c").map(\.fields.count)
        #expect(counts.count == 3 && CSVRecord.mostFields < counts[1] && counts[1] <= CSVRecord.mostFields + 2 && counts[2] == 2)
    }

    @Test func utf16IsNamed() throws {
        let failure = #expect(throws: CommandFailure.self) { try read([0xff, 0xfe, 0x61, 0]) }
        #expect(failure?.messages == ["a.csv is UTF-16: save it as UTF-8"])
    }
}

struct ImportFileTests {
    private static let header = "user_id,refresh_token,granted_at\n"

    private func open(_ path: String, clientID: String = "app", grantedAt: String? = nil) throws -> ImportFile {
        let now = Timestamp(milliseconds: 1_750_000_000_000)
        return try ImportFile(path, .init(clientID: clientID, grantedAt: grantedAt, anyID: true, known: ["app", "web"], now: now))
    }

    private func lines(_ count: Int) -> String { (1...count).map { "user\($0),r.\($0),1700000000\n" }.joined() }

    private func id(_ text: String, clientID: String = "app", grantedAt: String? = nil, in folder: TemporaryFolder) throws -> String {
        try folder.write(text, to: "a.csv")
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
        // A hundred lines of 100 kB.
        let long = String(repeating: "x", count: 100_000)
        let text = "user_id,refresh_token,granted_at,note\n" + (1...100).map { "user\($0),r.\($0),1700000000,\(long)\n" }.joined()
        writeOnce(text, toPipe: path)
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
        writeOnce(Self.header + lines(3) + "\"open", toPipe: path)
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

/// Makes a pipe, and writes a text to it for the first reader who opens it.
func writeOnce(_ text: String, toPipe path: String) {
    #expect(mkfifo(path, 0o600) == 0)
    Thread.detachNewThread {
        let end = FileHandle(forWritingAtPath: path)
        try? end?.write(contentsOf: Data(text.utf8))
        try? end?.close()
    }
}

/// A user that Apple does not know. The id has the shape of Apple's.
func stranger(_ number: Int) -> String {
    let digits = "\(number)"
    return "000000.\(String(repeating: "0", count: 32 - digits.count))\(digits).0000"
}
