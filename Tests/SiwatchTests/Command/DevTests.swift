// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// `siwatch-simulator dev` as a newcomer uses it. One after another, because the first takes the usual ports.
@Suite(.serialized, .timeLimit(.minutes(5))) struct DevTests {
    @Test func sessionsEndByThemselvesAndNothingIsLeft() async throws {
        let (home, receiver) = (try TemporaryFolder(), HookReceiver())
        try await receiver.serve { port in
            let dev = try await Self.start(in: home, "--webhook", "http://127.0.0.1:\(port)/hook")
            defer { dev.signal(SIGTERM) }
            let lines = dev.output.filter { $0.hasPrefix("curl ") }
            try #require(lines.count == 3, "\(dev.output)")
            let user = try #require(lines[1].firstMatch(of: /users\/([^\/]+)\//)).output.1

            let signedIn = try await Self.paste(lines[0])
            #expect(signedIn.contains(#""state":"authorized""#) && signedIn.contains(user), "\(signedIn)")
            #expect(try await Self.paste(lines[1]).contains(#""ends_session":false"#))
            for (event, reason) in [("email-disabled", "credential.email"), ("consent-revoked", "consent_revoked")] {
                let (status, said) = try await Self.trigger(event, in: home)
                #expect(status == 0 && said.contains(user), "\(said)")
                _ = try await receiver.hook { $0.body.contains(reason) && $0.body.contains(user) }
            }
            #expect(try await Self.paste(lines[1]).contains(#""ends_session":true"#))
            #expect(try await Self.paste(lines[2]).contains(#""outcome":"#))

            // Apple says nothing, and two more checks find it.
            let start = ContinuousClock.now
            #expect(try await Self.trigger("password-changed", in: home).status == 0)
            _ = try await receiver.hook { $0.body.contains("token_rejected") }
            #expect(ContinuousClock.now - start < .seconds(60))
            #expect(try await Self.trigger("account-deleted", in: home).status == 0)
            _ = try await receiver.hook { $0.body.contains("credential.account_deleted") }

            let folder = try #require(try FileManager.default.contentsOfDirectory(atPath: home.path).first)
            let mode = try FileManager.default.attributesOfItem(atPath: home.path("\(folder)/dev.json"))[.posixPermissions] as? Int
            #expect(mode == 0o600)
            dev.signal(SIGINT)
            #expect(await dev.exit() == 0, "\(dev.output)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: home.path).isEmpty)
            #expect(try await Self.run(ChildProcess.shell(lines[1])).status == 7, "siwatch goes on")
        }
    }

    @Test func appleIsInTroubleUntilItRecovers() async throws {
        let home = try TemporaryFolder()
        let dev = try await Self.start(in: home)
        defer { dev.signal(SIGTERM) }
        let line = try #require(dev.output.first { $0.hasPrefix("  page ") }?.split(separator: " ").last)
        let page = OperationsPages(at: String(line.dropLast()))
        func trigger(_ event: String) async throws { #expect(try await Self.trigger(event, in: home).status == 0, "\(event)") }
        // Until Apple has accepted a token, its rejection says nothing. Two rounds are enough.
        let good = #/siwatch_apple_responses_total\{endpoint="token",status="200"\} ([0-9]+)/#
        _ = try await page.get("metrics", within: .seconds(60)) { $0.firstMatch(of: good).flatMap { Int($0.output.1) } ?? 0 >= 40 }

        try await trigger("wrong-key")
        try await page.expect("metrics", shows: #"siwatch_breaker_open{app="example"} 1"#)
        try await trigger("recovery")
        try await page.expect("metrics", shows: #"siwatch_breaker_open{app="example"} 0"#)
        try await trigger("outage")
        try await page.expect("metrics", shows: #"siwatch_apple_responses_total{endpoint="token",status="503"}"#)
        try await trigger("recovery")
        try await trigger("mass-rejection")
        try await page.expect("metrics", shows: #"siwatch_breaker_open{app="example"} 1"#)
        dev.signal(SIGTERM)
        #expect(await dev.exit() == 0, "\(dev.output)")
    }

    @Test func twoAtOnceHaveTheirOwnPortsAndOneIsNamed() async throws {
        let home = try TemporaryFolder()
        let devs = [try await Self.start(in: home), try await Self.start(in: home)]
        defer { for dev in devs { dev.signal(SIGTERM) } }
        let addresses = devs.flatMap { $0.output.filter { $0.contains("  http://127.0.0.1:") } }
        #expect(addresses.count == 6 && Set(addresses.map { $0.split(separator: " ").last }).count == 6, "\(addresses)")

        let (status, said) = try await Self.trigger("outage", in: home)
        #expect(status != 0 && devs.allSatisfy { said.contains("--pid \($0.identifier)") }, "\(said)")
        #expect(try await Self.trigger("outage", in: home, "--pid", "\(devs[1].identifier)").status == 0)

        // A siwatch that dies takes its own dev along.
        let task = "/proc/\(devs[0].identifier)/task"
        let children = try FileManager.default.contentsOfDirectory(atPath: task).compactMap { thread in
            FileManager.default.contents(atPath: "\(task)/\(thread)/children").map { String(decoding: $0, as: UTF8.self) }
        }
        let siwatch = try #require(children.joined(separator: " ").split(separator: " ").first.flatMap { pid_t($0) })
        kill(siwatch, SIGKILL)
        #expect(await devs[0].exit() == 1 && devs[0].output.contains { $0.contains("siwatch ended with 137") }, "\(devs[0].output)")
        #expect(try await Self.trigger("recovery", in: home).status == 0)
        devs[1].signal(SIGHUP)
        #expect(await devs[1].exit() == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: home.path).isEmpty)
    }

    @Test func aMistakeGetsASentence() async throws {
        let home = try TemporaryFolder()
        let (status, said) = try await Self.trigger("outage", in: home)
        #expect(status != 0 && said.contains("No siwatch-simulator dev is at work here."), "\(said)")
        let cases = [
            (["--siwatch", "/nowhere/siwatch"], "There is no program /nowhere/siwatch.", "Install the package siwatch"),
            (["--webhook", "http://example.com/hook"], "http:// is for loopback addresses only", "delivery[0].url"),
        ]
        for (options, word, other) in cases {
            let dev = try await Self.run(ChildProcess("siwatch-simulator", ["dev"] + options, environment: Self.environment(of: home)))
            #expect(dev.status == 1 && dev.said.contains(word) && dev.said.contains(other), "\(dev.said)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: home.path).isEmpty)
    }

    // MARK: Terminals

    private static func environment(of home: TemporaryFolder) -> [String: String] { ["XDG_RUNTIME_DIR": home.path, "TMPDIR": home.path] }

    private static func start(in home: TemporaryFolder, _ options: String...) async throws -> ChildProcess {
        let dev = try ChildProcess("siwatch-simulator", ["dev"] + options, environment: environment(of: home))
        guard await dev.line(containing: "trigger consent-revoked") != nil else {
            dev.signal(SIGTERM)
            throw HarnessError("dev did not start: \(dev.output)")
        }
        return dev
    }

    private static func trigger(_ event: String, in home: TemporaryFolder, _ options: String...) async throws -> (
        status: Int32, said: String
    ) {
        try await run(ChildProcess("siwatch-simulator", ["trigger", event] + options, environment: environment(of: home)))
    }

    private static func paste(_ line: String) async throws -> String { try await run(ChildProcess.shell("\(line); echo")).said }

    private static func run(_ process: ChildProcess) async throws -> (status: Int32, said: String) {
        (try await process.end(), process.output.joined(separator: "\n"))
    }
}
