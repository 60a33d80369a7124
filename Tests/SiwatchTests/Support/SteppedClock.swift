// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// A wall clock of a process that a test sets while the process runs. Its monotonic clock is left alone.
struct SteppedClock {
    /// What the process is to be started with.
    let environment: [String: String]
    private let file: URL

    /// Whether there are to be such clocks.
    static let isWanted = ProcessInfo.processInfo.environment["SIWATCH_NO_FAKETIME"] != "1"

    init(in folder: WatchedFolder) throws {
        let tools = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let system = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map { "/usr/lib/\($0)/faketime" }
        let library = try #require(
            (tools + system).map { "\($0)/libfaketime.so.1" }.first(where: FileManager.default.fileExists),
            """
            libfaketime.so.1 is not on the PATH. Debian has it in the package libfaketime; SIWATCH_NO_FAKETIME=1 does without \
            these tests.
            """
        )
        file = folder.url.appending(path: "clock")
        environment = [
            "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": file.path, "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            // Without a name of shared memory the library makes one and sets the variable; Swift then finds no arguments any more.
            "FAKETIME_SHARED": "/none /none",
        ]
        try step(to: "+0s")
    }

    /// - Parameter offset: as libfaketime reads it, such as `-1h` or `+8d`.
    func step(to offset: String) throws {
        try offset.write(to: file, atomically: true, encoding: .utf8)
    }
}
