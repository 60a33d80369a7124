// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Foundation
import Logging
import Testing

@testable import siwatch

struct LogTests {
    private func line(_ message: String = "Something happened", _ fields: [(key: String, value: String)] = []) -> LogLine {
        LogLine(
            time: Date(timeIntervalSince1970: 1_700_000_000.25),
            level: .warning,
            name: "something",
            message: message,
            label: "siwatch",
            fields: fields
        )
    }

    @Test func aLineForPeopleIsOneLine() {
        #expect(
            line("Something happened", [("app", "example"), ("error", "no \"luck\" at\nall"), ("empty", ""), ("odd", "a=b")]).text()
                == """
                2023-11-14T22:13:20.250Z WARNING  Something happened event=something app=example error="no \\"luck\\" at\\nall" \
                empty="" odd="a=b"
                """
        )
    }

    /// The journal has a time of its own, and `journalctl -p` knows the level.
    @Test func aLineForTheJournalHasNoTime() {
        #expect(line("Something happened", []).text(hasTime: false) == "WARNING  Something happened event=something")
    }

    @Test func aLineForProgramsIsOneObject() {
        #expect(
            line("Something happened", [("app", "example")]).json == """
                {"time":"2023-11-14T22:13:20.250Z","level":"warning","event":"something","message":"Something happened",\
                "logger":"siwatch","app":"example"}
                """
        )
    }

    @Test(arguments: [
        "\u{1b}[2J", "a\r\nb", "\u{9b}31m", "\u{0}", "é ✓ 🙂", "\\\"", "\u{7f}\u{85}", "</script>", "a\u{202e}b\u{2028}c\u{feff}",
    ])
    func anyTextStaysOneLine(_ text: String) throws {
        let harmful = /[\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{feff}]/.matchingSemantics(.unicodeScalar)
        let json = line(text, [("error", text)]).json
        #expect(!json.contains(harmful))
        #expect(try JSONDecoder().decode([String: String].self, from: Data(json.utf8))["error"] == text)
        #expect(!line(text, [("error", text)]).text().contains(harmful))
    }

    @Test func aFloodOfOneEventIsHeldBackAndCounted() {
        var gate = LogRateLimit()
        let start = ContinuousClock.now
        for _ in 1...LogRateLimit.burst { #expect(gate.admit("flood", at: start) == 0) }
        for _ in 1...7 { #expect(gate.admit("flood", at: start + .seconds(9)) == nil) }
        #expect(gate.admit("other", at: start + .seconds(9)) == 0)
        #expect(gate.admit("flood", at: start + LogRateLimit.window) == 7)
        #expect(gate.admit("flood", at: start + LogRateLimit.window) == 0)
        #expect(gate.takeSuppressed() == ["flood": 7])
        #expect(gate.takeSuppressed().isEmpty)
    }

    @Test func aReaderThatStallsHoldsUpNobodyWhoLogs() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let output = LogOutput(Configuration.Log(level: .info, format: .json), descriptor: ends[1])
        // Of four megabytes a pipe holds 64 KB, and the buffer one megabyte.
        func write(_ numbers: ClosedRange<Int>) {
            for number in numbers { output.write(line(String(repeating: "x", count: 1000), [("count", "\(number)")])) }
        }
        write(1...100)
        // The pipe has to be full before the buffer is, or the log takes lines again after it has dropped some. The kernel tells nobody
        // that a pipe is full, so the test looks.
        var end = pollfd(fd: ends[1], events: Int16(POLLOUT), revents: 0)
        while poll(&end, 1, 0) > 0 { usleep(20_000) }
        write(101...4000)
        let dropped = output.writer.takeDropped()
        #expect(dropped > 1000 && dropped < 4000)
        #expect(output.writer.takeDropped() == 0)

        var read: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        func lines() -> [Substring] { String(decoding: read, as: UTF8.self).split(separator: "\n") }
        func readOn(until text: String) {
            while !(lines().last?.contains(text) ?? false) || read.last != UInt8(ascii: "\n") {
                let count = Foundation.read(ends[0], &buffer, buffer.count)
                guard count > 0 else { return }
                read += buffer.prefix(count)
            }
        }
        readOn(until: "log_lines_dropped")
        #expect(lines().count == 4000 - dropped + 1)
        #expect(lines().dropLast().enumerated().allSatisfy { $1.hasSuffix("\"count\":\"\($0 + 1)\"}") })
        #expect(lines().last?.contains("\"event\":\"log_lines_dropped\"") == true)
        #expect(lines().last?.hasSuffix("\"count\":\"\(dropped)\"}") == true)
        output.write(line("It goes on"))
        readOn(until: "It goes on")
        output.writer.drain(within: .seconds(10))
        #expect(lines().count == 4000 - dropped + 2 && output.writer.takeDropped() == 0)
    }

    private func writeThreeLines(to output: LogOutput) {
        for number in 1...3 {
            output.write(line("It happened", [("count", "\(number)")]))
            output.writer.drain(within: .seconds(10))
        }
    }

    /// A full disk refuses each line. The descriptor stays open: the writer's thread tries the refused lines again, and would write them into
    /// the next file that has the number.
    @Test func linesThatTheSystemRefusesAreCounted() throws {
        let descriptor = open("/dev/full", O_WRONLY)
        let output = LogOutput(Configuration.Log(level: .info, format: .json), descriptor: descriptor)
        writeThreeLines(to: output)
        // The lines that tell of dropped ones are refused as well, and nobody misses those.
        #expect(output.writer.takeDropped() == 3)
        #expect(output.writer.lostLines?.count == 3 && output.writer.lostLines?.isOver == false)
    }

    /// Nothing else may happen after somebody has made room.
    @Test func theLogTellsOfLostLinesOnceThereIsRoom() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).log").path
        defer { unlink(path) }
        let (full, file) = (open("/dev/full", O_WRONLY), open(path, O_CREAT | O_WRONLY, 0o600))
        let descriptor = dup(full)
        defer { for open in [full, file] { close(open) } }
        let output = LogOutput(Configuration.Log(level: .info, format: .json), descriptor: descriptor)
        writeThreeLines(to: output)
        dup2(file, descriptor)
        #expect(output.writer.takeDropped() == 3)
        output.writer.drain(within: .seconds(10))
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.contains("\"event\":\"log_lines_dropped\"") && text.hasSuffix("\"count\":\"3\"}\n"), "\(text)")
        #expect(output.writer.takeDropped() == 0 && output.writer.lostLines?.count == 3 && output.writer.lostLines?.isOver == true)
    }

    @Test func theJournalIsKnownByItsSocket() throws {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        let link = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
        let inode = try #require(link.firstMatch(of: /socket:\[([0-9]+)\]/)).1
        #expect(LogOutput.isJournal(descriptor, stream: "8:\(inode)"))
        #expect(!LogOutput.isJournal(descriptor, stream: "8:\(inode)1"))
        #expect(!LogOutput.isJournal(descriptor, stream: nil))
    }

    /// The operators' page lists every event of the code under its level, with its message, in the order of the code.
    @Test func everyEventIsDocumented() throws {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/telemetry.md"), encoding: .utf8)
        var (listed, expected): ([String], [String]) = ([], [])
        for section in page.components(separatedBy: "\n### ").dropFirst() {
            let level = try #require(section.prefixMatch(of: /`([a-z]+)`\n/)).1
            for item in section.matches(of: /(?m)^- `([a-z_]+)`: \*([^*]+)\*/) {
                listed.append("\(item.1) \(level) \(item.2.split(whereSeparator: \.isWhitespace).joined(separator: " "))")
            }
            expected += LoggedEvent.allCases.filter { "\($0.level)" == level }.map { "\($0.name) \($0.level) \($0.message)" }
        }
        #expect(listed == expected)
        #expect(listed.count == LoggedEvent.allCases.count)
        #expect(Set(LoggedEvent.allCases.map(\.name)).count == LoggedEvent.allCases.count)
    }
}
