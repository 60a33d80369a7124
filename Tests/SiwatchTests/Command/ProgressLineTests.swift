// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers
import Testing

@testable import siwatch

struct ProgressLineTests {
    @Test func theBarFillsOnce() {
        #expect(ProgressLine.line("copying", 0, of: 1_000, "rows").hasPrefix("copying  ░░"))
        #expect(ProgressLine.line("copying", 500, of: 1_000, "rows").hasSuffix("░   50 %  500 rows"))
        // `move` proves each row twice.
        #expect(ProgressLine.line("proving", 4_000_000, of: 2_000_000, "rows", passes: 2).hasSuffix("█  100 %  2,000,000 rows"))
        #expect(ProgressLine.line("searching", 7, of: nil, "s") == "searching  7 s")
    }

    @Test(arguments: [true, false]) func theLineIsClearedWithAndWithoutEscapes(usesEscapes: Bool) {
        let written = NIOLockedValueBox<[String]>([])
        let line = ProgressLine(isShown: true, usesEscapes: usesEscapes) { text in written.withLockedValue { $0.append(text) } }
        line.begin("counting", of: nil, "lines")
        line.end()
        let clear = "\r" + String(repeating: " ", count: "counting  0 lines".count) + "\r"
        let expected = usesEscapes ? ["\rcounting  0 lines\u{1B}[K", "\r\u{1B}[K"] : ["\rcounting  0 lines", clear]
        #expect(written.withLockedValue { $0 } == expected)
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
