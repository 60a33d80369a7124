// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import siwatch

/// A whole file: all of its mistakes, with their places, and its syntax.
struct ConfigurationFileTests {
    @Test func aFileThatCannotBeReadIsAMistake() throws {
        let folder = try TemporaryFolder()
        try folder.write("# " + String(repeating: "x", count: 1 << 18), to: "long.toml")
        try Data([0x23, 0x20, 0xe9]).write(to: URL(filePath: folder.path("latin.toml")))

        for (name, problem) in [
            ("none.toml", "cannot be read: No such file or directory; sudo siwatch init makes one"),
            ("", "cannot be read: Is a directory"),
            ("long.toml", "is longer than 262144 bytes"),
            ("latin.toml", "is not UTF-8: save it as plain text"),
        ] {
            let error = #expect(throws: InvalidConfiguration.self) { try Configuration(contentsOf: folder.path(name)) }
            #expect(error?.description == "\(folder.path(name)): \(problem)")
        }
    }

    @Test func aMistakeInAFileHasItsLineAndItsKey() throws {
        let folder = try TemporaryFolder()
        func places(_ text: String) throws -> [String] {
            try folder.write(text, to: "siwatch.toml")
            let path = folder.path("siwatch.toml")
            let error = try #require(throws: InvalidConfiguration.self) { try Configuration(contentsOf: path) }
            return error.mistakes.map { String("\($0)".prefix { $0 != ":" }) }
        }
        let text = #"""
            # "[a
            [refresh]
            max_requests_per_second = 0 # per hour
            [[app]]
            name = '''
            one
            [x]
            '''
            client_ids = [
              "a", # ]
            ]
            [[app.key]]
            id = "ABC123DEFG"
            [[app.key]]
            id = 5
            file = { a = "}" }
            [[app]]
            name = "two\""
            """#
        #expect(
            try places(text) == [
                "app[0].name (line 5)",
                "app[0].team_id (line 4)",
                "app[0].key[0].file (line 12)",
                "app[0].key[1].id (line 15)",
                "app[0].key[1].file (line 16)",
                "app[1].team_id (line 17)",
                "app[1].client_ids (line 17)",
                "app[1].key (line 17)",
                "refresh.max_requests_per_second (line 3)",
            ]
        )
        #expect(try places("[[app]]\nname = \"a\nteam_id = \"b\"") == ["line 2, column 10 (app[0].name)"])
        #expect(try places("[[app]]\nname = \"a\"\n[ [app] ]") == ["line 3, column 1 (app[0].name)"])
    }

    @Test func aHintQuotesNoValue() {
        let pasted = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0==\n-----END PRIVATE KEY-----\n"
        for text in ["[[app]]\n[[app.key]]\nfile =\n" + pasted, "[[app]]\n[[app.key]]\n" + pasted, "[[app]]\n[[app.key]]\n[" + pasted] {
            let lines = KeyLines(text)
            #expect((1...7).compactMap(lines.key(at:)).allSatisfy { ["app[0]", "app[0].key[0]", "app[0].key[0].file"].contains($0) })
        }
    }

    @Test func allMistakesAreFoundAtOnce() {
        let text = """
            colour = "red"
            [database]
            path = 5
            [refresh]
            interval = "daily"
            max_requests_per_second = 0
            retries = 3
            [log]
            level = "loud"
            [[app]]
            name = "one"
            team_id = "short"
            client_ids = ["a", "", "a"]
            [[app.key]]
            id = "ABC123DEFG"
            [[app.key]]
            id = "ABC123DEFG"
            file = 1
            [[app]]
            name = "one"
            client_ids = ["a"]
            """
        let error = #expect(throws: InvalidConfiguration.self) { try Configuration(parsing: text, from: "/etc/siwatch.toml") }
        #expect(
            "\(error, default: "")" == """
                /etc/siwatch.toml: database.path: must be a string, not an integer
                /etc/siwatch.toml: app[0].team_id: \(ConfigurationMistakeTests.appleID)
                /etc/siwatch.toml: app[0].client_ids[1]: \(ConfigurationMistakeTests.clientID)
                /etc/siwatch.toml: app[0].client_ids[2]: is the same as app[0].client_ids[0]
                /etc/siwatch.toml: app[0].key[0].file: is missing
                /etc/siwatch.toml: app[0].key[1].id: is the same as app[0].key[0].id
                /etc/siwatch.toml: app[0].key[1].file: must be a string, not an integer
                /etc/siwatch.toml: app[1].name: is the same as app[0].name
                /etc/siwatch.toml: app[1].team_id: is missing
                /etc/siwatch.toml: app[1].client_ids[0]: is the same as app[0].client_ids[0]
                /etc/siwatch.toml: app[1].key: is missing: at least one [[app.key]] is needed
                /etc/siwatch.toml: refresh.interval: \(ConfigurationMistakeTests.duration)
                /etc/siwatch.toml: refresh.max_requests_per_second: \(ConfigurationMistakeTests.whole)
                /etc/siwatch.toml: refresh.retries: is not a key that siwatch knows
                /etc/siwatch.toml: log.level: must be one of trace, debug, info, notice, warning, error, critical
                /etc/siwatch.toml: colour: is not a key that siwatch knows
                """
        )
    }

    @Test(arguments: [
        ("[database\npath = 1", 1, 10), ("[database]\npath = \n", 2, 8), ("[database]\npath = \"a\"\npath = \"b\"\n", 3, 8),
        ("# é\nx = 1 y", 2, 7), ("[database]\npath = \"a\\u0000b\"\n", 2, 10), ("[database]\n\npath = \"a\0b\"", 3, 10),
        ("[[app]]\n  [=]", 2, 1), ("[[[app]]]", 1, 1), ("\u{feff}[[ é]]", 1, 1), ("[\r\n", 1, 1), ("[[# app ]]", 1, 1),
        ("x = 1\ny = [1, # one\n}]", 2, 7), ("y = [}", 1, 5), ("x = 2020-01-01true", 1, 5),
    ])
    func aSyntaxErrorHasItsLineAndColumn(text: String, line: Int, column: Int) throws {
        let error = try #require(throws: InvalidConfiguration.self) { try Configuration(parsing: text, from: "siwatch.toml") }
        #expect(error.mistakes.map(\.place) == [.position(line: line, column: column)])
        #expect(error.description.hasPrefix("siwatch.toml: line \(line), column \(column): "))
    }

    @Test(arguments: [
        ("[log]\nlevel = \"info\nformat = \"text\"\n", 2, "the text has no closing quotation mark"),
        ("[log]\r\nlevel = 'info # as told\r\n", 2, "the text has no closing quotation mark"),
        ("[log]\nlevel = info\n", 2, "text stands between quotation marks"),
        ("[log]\nlevel = info\"\n", 2, "text stands between quotation marks"),
        ("[database]\npath = /var/lib/siwatch.sqlite\n", 2, "text stands between quotation marks"),
    ])
    func aMissingQuotationMarkIsSaid(text: String, line: Int, problem: String) throws {
        let error = try #require(throws: InvalidConfiguration.self) { try Configuration(parsing: text, from: "siwatch.toml") }
        #expect(error.description.hasPrefix("siwatch.toml: line \(line), column ") && error.description.contains(problem), "\(error)")
    }

    /// Characters that end the parser outside of strings and comments are harmless inside.
    @Test func oddStringsAndCommentsAreAccepted() throws {
        let odd = #"""
            # [= [} 2020-01-01 '
            [apple] # "
            issuers = [ # [}
              "[=]", # ''\'
              '[ } \', "\"[}\"", # }
              """""
            [=] \""" [}"""", '[}',
              '''
            [= '
            [}''''', "2020-01-01",
              "[[[",
            ]

            """#
        #expect(try Configuration(parsing: odd + ConfigurationTests.app, from: "siwatch.toml").apple.issuers.count == 8)
    }

    @Test func aByteOrderMarkIsAccepted() throws {
        let text = "\u{feff}" + ConfigurationTests.app.replacing("\n", with: "\r\n")
        #expect(try Configuration(parsing: text, from: "/etc/siwatch.toml") == ConfigurationTests.least)
    }
}
