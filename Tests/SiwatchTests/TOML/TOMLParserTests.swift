// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import siwatch

/// Documents that a separate process parses, and the errors for documents that end it.
struct TOMLParserTests {
    /// Documents that make toml++ abort or overflow its stack, if nothing refuses them first.
    static let deadly = [
        "\u{feff}\u{feff}[[[app]]]\n",
        "\u{feff}\u{feff}[[\u{85}\"x\"'''07:32:00binf",
        "a=[1,\u{2028}+\u{2029}\u{2028}e,a\u{b}",
        "a = [1,\u{2028}]\n", "a = [\u{2028}]\n", "a = [\u{2029}]\n", "a = [\u{85}]\n", "a={b=[\u{85}]}",
        "[a" + String(repeating: ".a", count: 120_000) + "]\n",
    ]

    @Test(arguments: deadly)
    func aDocumentThatEndsItsParserIsAMistake(_ text: String) throws {
        let error = try #require(throws: UnparsedDocument.self) { try TOMLParser.built().parse(text) }
        #expect(!error.isTransient)
        #expect(error.mistake.place == .file)
        #expect("\(error.mistake)".hasPrefix("cannot be read as TOML: its parser died of it (signal "))
    }

    @Test func aDocumentThatTakesTooLongIsAMistake() throws {
        let text = "\"" + String(repeating: "\\\"", count: 60_000)
        let error = #expect(throws: UnparsedDocument.self) { try TOMLParser.built(processorSeconds: 1).parse(text) }
        #expect(error == .endless(seconds: 1))
        #expect(error?.isTransient == false)
    }

    @Test func everyValueComesOverAsItIs() throws {
        let text = #"""
            "" = -9223372036854775808
            a = [9223372036854775807, 0x10, 1.0, inf, nan, true, 07:32:00, {}, [], ""]
            "\u00e9" = 1
            "e\u0301" = 2
            s = "\u0001\u007f\uFFFF\U0010FFFF\"\\/ \u2028\r\n\t"
            [b.c]
            "x.y" = '''
            two
            lines'''
            [[d]]
            [[d]]
            e = 1
            """#
        let table = try TOMLParser.built().parse(text)
        #expect(table == (try ConfigurationTable(parsing: text)))
        // Swift treats two of them as equal.
        #expect(Set(table.keys.map { Array($0.utf8) }).count == 7)
        #expect(table[""] == .integer(.min))
        let list = try #require(table["a"]?.list)
        #expect(
            list == [
                .integer(.max), .integer(16), .float, .float, .float, .boolean(true), .time, .table(ConfigurationTable()), .list([]),
                .string(""),
            ]
        )
        #expect(table["s"]?.string == "\u{1}\u{7f}\u{ffff}\u{10ffff}\"\\/ \u{2028}\r\n\t")
        #expect(table["b"]?.table?["c"]?.table?["x.y"] == .string("two\nlines"))
        #expect(table["d"]?.list?.count == 2)
    }

    @Test func aDateIsSaidToBeOne() throws {
        // In strings and comments a date is allowed.
        #expect(try TOMLParser.built().parse("a = '2020-01-01' # 2020-01-01\n")["a"] == .string("2020-01-01"))
        #expect(ConfigurationValue.date.kind == "a date")
    }

    @Test func aSyntaxErrorKeepsItsPlace() throws {
        let error = #expect(throws: UnparsedDocument.self) { try TOMLParser.built().parse("[database]\npath = \n") }
        #expect(error?.mistake.place == .position(line: 2, column: 8))
        #expect(error?.isTransient == false)
    }

    @Test(arguments: ["a.", "[[a]]\n[a.", "a = "])
    func whatIsNestedTooDeeplyIsRefused(_ opening: String) throws {
        let text =
            opening.hasSuffix("= ")
            ? opening + String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
            : opening + Array(repeating: "b", count: 40).joined(separator: ".") + (opening.hasPrefix("[") ? "]" : " = 1")
        let error = #expect(throws: UnparsedDocument.self) { try TOMLParser.built().parse(text) }
        #expect(error == .mistake(ConfigurationMistake(place: .file, problem: "is nested too deeply")))
    }

    /// If the parser's process is at fault, the error does not blame the document, because a service must try again.
    @Test(arguments: [
        ("/nonexistent/siwatch", "cannot be started: No such file or directory"), ("/bin/false", "ended with status 1"),
    ])
    func aParserThatGivesNoAnswerIsNoMistake(_ program: String, _ problem: String) throws {
        // Large enough that a child which reads nothing leaves some of it.
        let text = String(repeating: "# nothing\n", count: 25_000)
        let error = #expect(throws: UnparsedDocument.self) { try TOMLParser(program: program).parse(text) }
        #expect(error?.mistake == ConfigurationMistake(place: .file, problem: "could not be parsed: the parser's process \(problem)"))
        #expect(error?.isTransient == true)
    }
}

struct ParserProcessTests {
    @Test func whatTakesTooLongIsKilled() throws {
        let (output, end) = try ParserProcess("/bin/sleep", ["sleep", "600"]).exchange([], within: .milliseconds(50))
        #expect(output == [] && end == .killed)
    }

    /// A child that never reads does not block siwatch either.
    @Test func whatTakesNoInputIsKilled() throws {
        let input = [UInt8](repeating: 0x20, count: 1 << 24)
        let (_, end) = try ParserProcess("/bin/sleep", ["sleep", "600"]).exchange(input, within: .milliseconds(50))
        #expect(end == .killed)
    }

    @Test func inputAndOutputAreWhole() throws {
        let script = "wc -c; head -c 300000 /dev/zero"
        let input = [UInt8](repeating: 7, count: 200_000)
        let (output, end) = try ParserProcess("/bin/sh", ["sh", "-c", script]).exchange(input, within: .seconds(30))
        #expect(output == Array("200000\n".utf8) + [UInt8](repeating: 0, count: 300_000) && end == .status(0))
    }

    /// Not even descriptors that stay open on exec, such as SwiftNIO's sockets.
    @Test func theChildGetsNoDescriptorOfOurs() throws {
        let null = open("/dev/null", O_RDONLY)
        let open = fcntl(null, F_DUPFD, 700)
        defer { for descriptor in [null, open] { close(descriptor) } }
        let (output, end) = try ParserProcess("/bin/ls", ["ls", "/proc/self/fd"]).exchange([], within: .seconds(30))
        #expect(end == .status(0))
        let descriptors = String(decoding: output, as: UTF8.self).split(separator: "\n").compactMap { Int32($0) }
        // Another test may have opened a descriptor in between.
        #expect(Set(descriptors).isSuperset(of: [0, 1, 2]) && !descriptors.contains(open))
    }

    /// The child does not inherit blocked or ignored signals.
    @Test func theChildHandlesSignalsAsANewProgram() throws {
        let (output, end) = try ParserProcess("/bin/grep", ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]).exchange(
            [],
            within: .seconds(30)
        )
        #expect(end == .status(0))
        let sets = String(decoding: output, as: UTF8.self).matches(of: /\t([0-9a-f]{16})/).compactMap { UInt64($0.1, radix: 16) }
        // Two are glibc's own, 32 and 33, which it always ignores here.
        #expect(sets.count == 2 && sets.allSatisfy { $0 & ~0x1_8000_0000 == 0 }, "\(String(decoding: output, as: UTF8.self))")
    }
}
