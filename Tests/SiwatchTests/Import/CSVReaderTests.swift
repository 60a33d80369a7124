// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
            ("a,b\n1,2\n", [["a", "b"], ["1", "2"]]),
            ("a,b\r\n1,2\r\n", [["a", "b"], ["1", "2"]]),
            ("\u{FEFF}a,b\n1,2", [["a", "b"], ["1", "2"]]),
            ("a;b\n1;2", [["a", "b"], ["1", "2"]]),
            ("a\tb\n1,5\t2", [["a", "b"], ["1,5", "2"]]),
            ("a,b\n\"1,\"\"x\"\"\n2\",\"\"\r\n", [["a", "b"], ["1,\"x\"\n2", ""]]),
            ("\"a\",b\n,\n\n\r\n", [["a", "b"], ["", ""]]),
            ("a,b\n1\"2,3\"\n", [["a", "b"], ["1\"2", "3\""]]),
            ("a\n\"b\r\n\"\r\n", [["a"], ["b\r\n"]]),
            ("", []),
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
