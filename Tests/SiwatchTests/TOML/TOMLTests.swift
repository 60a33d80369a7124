// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import TOMLKit
import Testing

@testable import siwatch

struct TOMLTests {
    private static let invisible = [
        "\u{feff}\u{feff}[[[app]]]\n", "\u{feff}\u{feff}[[\u{85}\"x\"'''07:32:00binf", "a=[1,\u{2028}+\u{2029}\u{2028}e,a\u{b}",
        "a = [1,\u{2028}]\n", "a = [\u{2028}]\n", "a = [\u{2029}]\n", "a = [\u{85}]\n", "a={b=[\u{85}]}",
    ]
    private static let dotted = Array(repeating: "b", count: 40).joined(separator: ".")
    private static let deep = [
        "[a" + String(repeating: ".a", count: 120_000) + "]\n", "a.\(dotted) = 1", "[[a]]\n[a.\(dotted)]",
    ]

    /// Documents that make toml++ abort or overflow its stack, if nothing refuses them first.
    @Test(arguments: invisible.map { ($0, "an invisible character stands here") } + deep.map { ($0, "is nested too deeply") })
    func aDocumentThatEndsItsParserIsRefused(_ text: String, _ problem: String) throws {
        let error = try #require(throws: ConfigurationMistake.self) { try TOMLTable.parse(text) }
        #expect(error.problem == problem)
    }

    @Test(arguments: ["[", "{a="]) func nestingWithoutAnEndIsRefused(_ opening: String) {
        #expect(throws: ConfigurationMistake.self) { try TOMLTable.parse("a = " + String(repeating: opening, count: 100_000)) }
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
        let table = try TOMLTable.parse(text)
        // Swift treats two of them as equal.
        #expect(Set(table.keys.map { Array($0.utf8) }).count == 7)
        #expect(table[""]?.int == .min)
        let list = try #require(table["a"]?.array?.map(\.tomlValue))
        let float = "floating-point number"
        let kinds = ["integer", "integer", float, float, float, "boolean", "time", "table", "list", "string"]
        #expect(list.map { $0.kind.split(separator: " ", maxSplits: 1).last.map(String.init) } == kinds)
        #expect(list[0].int == .max && list[1].int == 16 && list[5].bool == true && list[9].string == "")
        #expect(list[7].table?.isEmpty == true && list[8].array?.isEmpty == true)
        #expect(table["s"]?.string == "\u{1}\u{7f}\u{ffff}\u{10ffff}\"\\/ \u{2028}\r\n\t")
        #expect(table["b"]?.table?["c"]?.table?["x.y"]?.string == "two\nlines")
        #expect(table["d"]?.array?.count == 2)
    }

    @Test func aDateInAStringOrACommentIsTaken() throws {
        #expect(try TOMLTable.parse("a = '2020-01-01' # 2020-01-01\n")["a"]?.string == "2020-01-01")
    }
}
