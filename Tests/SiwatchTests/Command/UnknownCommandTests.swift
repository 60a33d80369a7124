// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import DaemonHarness
import Testing

@testable import siwatch

struct UnknownCommandTests {
    @Test(arguments: [
        (["statsu"], #"siwatch has no command "statsu"; did you mean siwatch status?"#),
        (["docter", "--json"], #"siwatch has no command "docter"; did you mean siwatch doctor?"#),
        (["quarantine", "lst"], #"siwatch quarantine has no command "lst"; did you mean siwatch quarantine list?"#),
        (["frobnicate"], #"siwatch has no command "frobnicate""#),
        (["\u{1B}[2J"], #"siwatch has no command "\u{1b}[2J""#),
    ])
    func theNearestCommandIsNamed(_ words: [String], _ sentence: String) {
        let failure = CommandFailure(unknownCommandIn: words)
        #expect(failure?.messages[0].hasPrefix(sentence + "\n") == true, "\(failure?.messages ?? [])")
        #expect(failure?.code.rawValue == 64)
    }

    @Test(
        arguments: [[], ["status"], ["explain", "anybody"], ["--help"], ["help", "statsu"], ["breaker"], ["breaker", "reset"]] as [[String]]
    )
    func knownCommandsAreNoMistakes(_ words: [String]) {
        #expect(CommandFailure(unknownCommandIn: words) == nil)
    }

    @Test(
        arguments: [
            ("refersh", "refresh"), ("paht", "path"), ("intervall", "interval"), ("pth", "path"), ("colour", nil), ("", nil), ("a", nil),
        ] as [(String, String?)]
    )
    func aWordTwoEditsAwayIsNear(_ word: String, _ nearest: String?) {
        #expect(word.nearest(among: ["refresh", "path", "interval", "log"]) == nearest)
    }

    @Test func theProgramSaysSo() async throws {
        let mistyped = try ChildProcess("siwatch", ["statsu"])
        #expect(await mistyped.exit() == 64)
        #expect(
            mistyped.output == [
                #"siwatch: siwatch has no command "statsu"; did you mean siwatch status?"#, "siwatch --help lists all commands",
            ]
        )
        let alone = try ChildProcess("siwatch", [])
        #expect(await alone.exit() == 0)
        for command in ["siwatch init ", "siwatch status ", "siwatch doctor ", "siwatch --help "] {
            #expect(alone.output.contains { $0.contains(command) }, "\(alone.output)")
        }
    }
}
