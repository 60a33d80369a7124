// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// Every command once as the program, because the other tests call commands in their own process.
@Suite(.timeLimit(.minutes(10))) struct ProgramTests {
    private static let calls: [([String], Int32)] = [
        (["doctor", "--before-start"], 0), (["migrate"], 0), (["status"], 2), (["doctor"], 2), (["explain", "nobody"], 1),
        (["export", "nobody"], 1), (["forget", "nobody"], 1), (["rejected", "example"], 0), (["recheck", "nobody"], 1),
        (["resume", "example"], 0), (["pause", "example"], 0), (["breaker", "confirm", "example"], 64),
        (["breaker", "reset", "example"], 0), (["report"], 0), (["revocations", "list"], 0),
        (["revocations", "confirm", "example", "1"], 64), (["revocations", "drop", "example"], 64),
        (["quarantine", "list"], 0), (["quarantine", "retry", "--all"], 0), (["quarantine", "drop", "--all"], 0),
        (["enqueue", "FOLDER/siwatch.toml"], 0), (["import", "nothing"], 1), (["backup", "FOLDER/copy-NUMBER"], 0), (["move"], 64),
        (["rename", "app", "example", "example"], 1), (["secret", "new", "token"], 0), (["secret", "public-key"], 0),
        (["secret", "rotate"], 0), (["secret", "retire", "00000000"], 1), (["secret", "abandon", "--yes"], 1),
        (["secret", "client", "com.example.app"], 0), (["delivery", "test", "hook"], 1), (["delivery", "replay", "hook"], 1),
        (["delivery", "drop", "hook"], 1), (["init", "--yes", "--service-user", "no-such-user"], 78), (["run", "--once"], 0),
        (["version", "--dependencies"], 0),
    ]
    private static let withoutConfiguration: Set = ["secret new", "move", "version"]

    @Test func thereAreThirtySixCommandsInGroups() async throws {
        #expect(Self.paths(below: Siwatch.self, []).count == 36)
        #expect(Siwatch.configuration.groupedSubcommands.map(\.name) == ["Set up", "Look", "One user", "Decide", "Data", "Secrets"])
        #expect(Siwatch.configuration.ungroupedSubcommands.isEmpty)
        let help = try await CommandCall.siwatch(["--help"]).output
        for group in Siwatch.configuration.groupedSubcommands {
            #expect(help.contains("\(group.name.uppercased()) SUBCOMMANDS:"), "\(help)")
        }
    }

    /// In the place of root, whom `sudo` makes of everybody.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func aCommandOfRootGoesOnAsTheOwnerOfTheDatabase() async throws {
        try await site.folder.expect("migrate", 0)
        try Servant.take(over: site.folder)
        let copy = site.folder.path("copy")
        let process = try ChildProcess("siwatch", ["backup", copy, "--config", site.folder.configurationPath])
        #expect(await process.exit() == 0, "\(process.output)")
        #expect(try FileManager.default.attributesOfItem(atPath: copy)[.ownerAccountID] as? UInt32 == Servant.user)
    }

    @Test func itsCommandsAreThoseOfTheTests() async throws {
        #expect(Set(Self.calls.map { Self.path(of: $0.0) }) == Self.paths(below: Siwatch.self, []))
        try await Site.with { site in
            for (arguments, code) in Self.calls {
                let path = Self.path(of: arguments)
                let isAlone = Self.withoutConfiguration.contains { path == $0 || path.hasPrefix("\($0) ") }
                func words(_ number: Int) -> [String] {
                    let words = arguments + (isAlone ? [] : ["--config", site.folder.configurationPath])
                    return words.map { $0.replacing("FOLDER", with: site.folder.url.path).replacing("NUMBER", with: "\(number)") }
                }
                let program = try ChildProcess("siwatch", words(1))
                #expect(await program.exit() == code, "\(arguments): \(program.output)")
                guard arguments[0] != "run" else { continue }
                let (status, output) = try await CommandCall.siwatch(words(2))
                #expect(status == code, "\(arguments): \(output)")
                #expect(output.map(\.masked) == program.output.map(\.masked), "\(arguments)")
            }
        }
    }

    @Test func theProgramKnowsThePackagesInside() async throws {
        let output = try await CommandCall.siwatch(["version", "--dependencies"]).output
        #expect(output.first == "siwatch \(Version.current)")
        #expect(output.contains { $0.wholeMatch(of: /swift-nio [0-9.]+ [0-9a-f]{40}/) != nil }, "\(output)")
    }

    private static func paths(below command: any ParsableCommand.Type, _ path: [String]) -> Set<String> {
        let commands = command.configuration.subcommands
        guard !commands.isEmpty else { return [path.joined(separator: " ")] }
        return commands.reduce(into: []) { $0.formUnion(paths(below: $1, path + [$1._commandName])) }
    }

    private static func path(of arguments: [String]) -> String {
        let two = arguments.prefix(2).joined(separator: " ")
        return paths(below: Siwatch.self, []).contains(two) ? two : arguments[0]
    }
}

extension String {
    /// Without numbers and secrets, which differ from call to call.
    fileprivate var masked: String { replacing(/[0-9A-Za-z+\/=_.-]{40,}|\b[0-9a-f]{8}\b|[0-9]+/, with: "#") }
}
