// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
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

    @Test(arguments: ["", "status", "explain anybody", "--help", "help statsu", "breaker", "breaker reset"])
    func knownCommandsAreNoMistakes(_ words: String) {
        #expect(CommandFailure(unknownCommandIn: words.split(separator: " ").map(String.init)) == nil)
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
        let words = [#"siwatch: siwatch has no command "statsu"; did you mean siwatch status?"#, "siwatch --help lists all commands"]
        #expect(mistyped.output == words)
        let alone = try ChildProcess("siwatch", [])
        #expect(await alone.exit() == 0)
        for command in ["siwatch init ", "siwatch status ", "siwatch doctor ", "siwatch --help "] {
            #expect(alone.output.contains { $0.contains(command) }, "\(alone.output)")
        }
    }
}

struct ProgressLineTests {
    @Test func theBarFillsOnce() {
        #expect(ProgressLine.line("copying", 0, of: 1_000, "rows").hasPrefix("copying  ░░"))
        #expect(ProgressLine.line("copying", 500, of: 1_000, "rows").hasSuffix("░   50 %  500 rows"))
        // `move` proves each row twice.
        #expect(ProgressLine.line("proving", 4_000_000, of: 2_000_000, "rows", passes: 2).hasSuffix("█  100 %  2,000,000 rows"))
        #expect(ProgressLine.line("searching", 7, of: nil, "s") == "searching  7 s")
    }

    @Test func theLineIsCleared() {
        let written = NIOLockedValueBox<[String]>([])
        let line = ProgressLine(isShown: true) { text in written.withLockedValue { $0.append(text) } }
        line.begin("counting", of: nil, "lines")
        line.end()
        #expect(written.withLockedValue { $0 } == ["\rcounting  0 lines\u{1B}[K", "\r\u{1B}[K"])
    }

    @Test func aSilentLineWritesNothing() async throws {
        let written = NIOLockedValueBox(0)
        let line = ProgressLine(isShown: false) { _ in written.withLockedValue { $0 += 1 } }
        line.begin("counting", of: 1)
        line.add()
        line.end()
        #expect(try await line.time("waiting") { 7 } == 7)
        #expect(written.withLockedValue { $0 } == 0)
    }
}

/// Names that backends and operators chose may hold anything. A terminal obeys none of it.
struct PrintableTests {
    @Test(
        arguments: [
            ("two\nlines\n", "two\nlines\n"), ("a\u{1b}[2J\nb", "a\\u{1b}[2J\nb"), ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}x\u{2028}", "\\u{202e}x\\u{2028}"),
            ("▏é日", "▏é日"), ("\r\n", "\\u{d}\n"),
        ]
    )
    func whatControlsATerminalIsSpelledOut(text: String, printed: String) {
        #expect(text.printableLines == printed)
    }

    /// The name of the database comes from the configuration, and stands in many sentences.
    @Test(.site) func noCommandPrintsItRaw() async throws {
        try site.folder.edit("siwatch.sqlite\"", "si\u{9b}31mwatch.sqlite\"")
        for command in ["doctor --before-start", "status", "migrate"] {
            let output = try await site.folder.siwatch(line: command).output
            #expect(!output.joined().unicodeScalars.contains("\u{9b}"), "\(command): \(output)")
        }
    }
}

struct PastedPathTests {
    @Test func aDraggedFileLosesItsQuotes() {
        for pasted in ["/keys/Auth Key.p8", "'/keys/Auth Key.p8'", "\"/keys/Auth Key.p8\"", "/keys/./old/../Auth Key.p8"] {
            #expect(pasted.pastedPath(homeBehindSudo: nil) == "/keys/Auth Key.p8")
        }
        #expect("'".pastedPath(homeBehindSudo: nil).hasSuffix("/'"))
    }

    /// Under sudo the home is root's, and the key lies in that of the person who typed it.
    @Test func aTildeUnderSudoMeansThePersonsHome() throws {
        let home = try TemporaryFolder()
        try Data().write(to: URL(filePath: "\(home.path)/key.p8"))
        #expect("~/key.p8".pastedPath(homeBehindSudo: home.path) == "\(home.path)/key.p8")
        #expect("'~/key.p8'".pastedPath(homeBehindSudo: home.path) == "\(home.path)/key.p8")

        let own = NSString(string: "~").expandingTildeInPath
        #expect("~/key-of-nobody.p8".pastedPath(homeBehindSudo: home.path) == "\(own)/key-of-nobody.p8")
        #expect("~/key.p8".pastedPath(homeBehindSudo: nil) == "\(own)/key.p8")
        #expect("/~/key.p8".pastedPath(homeBehindSudo: home.path) == "/~/key.p8")
    }
}

struct NewKeyTests {
    private func make(_ arguments: String...) async throws -> (status: Int32, output: [String]) {
        try await CommandCall.siwatch(["secret", "new", "sealing-key"] + arguments)
    }

    @Test(.site) func aNewKeyIsPrintedOrWrittenAndNeverTwice() async throws {
        let folder = site.folder
        let file = folder.url.appending(path: "siwatch.key")
        let publicKeys = try await folder.siwatch("secret", "public-key").output
        #expect(publicKeys.count == 1 && publicKeys[0].hasPrefix("siwatch-public-key-1:"), "\(publicKeys)")
        let old = try String(contentsOf: file, encoding: .utf8)

        let (status, output) = try await make()
        #expect(status == 0)
        try folder.write((output + [old]).joined(separator: "\n"), to: "siwatch.key", mode: 0o400)
        let both = try await folder.siwatch("secret", "public-key").output
        #expect(both.count == 2 && both[1] == publicKeys[0] && both[0] != both[1], "\(both)")
        try await folder.expect("secret public-key --json", 0, both[0], both[1])

        let refused = try await make(file.path)
        #expect(refused.status == 1 && refused.output.joined().contains("exists already and is left as it is"), "\(refused.output)")
        #expect(try await folder.siwatch("secret", "public-key").output == both)

        // No other key opens this database, and none at all is a sentence of its own.
        try FileManager.default.removeItem(at: file)
        try await folder.expect("secret public-key", 78, "siwatch.key is missing")
        let written = try await make(file.path)
        #expect(written.status == 0 && written.output.isEmpty, "\(written.output)")
        #expect(try folder.mode(of: "siwatch.key") == 0o600)
        try await folder.expect("secret public-key", 78, "does not open this database")
    }
}
