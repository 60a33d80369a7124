// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDBSQLite

enum Machine {
    static func description() async throws -> String {
        let load = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8))?.split(separator: " ").first ?? "?"
        let cores = ProcessInfo.processInfo.activeProcessorCount
        let sqlite = String(cString: sqlite3_libversion())
        return "\(build), \(cores) cores, load \(load) before the run, SQLite \(sqlite), \(try await fileSystem())"
    }

    private static var build: String {
        #if DEBUG
            "DEBUG build (the figures mean nothing)"
        #else
            "release build"
        #endif
    }

    /// The type of the file system that holds the databases. On tmpfs, for one, a durable commit costs nothing.
    private static func fileSystem() async throws -> String {
        let df = try ChildProcess(URL(filePath: "/usr/bin/env"), ["df", "--output=fstype", FileManager.default.temporaryDirectory.path])
        return try await df.end() == 0 ? df.output.last ?? "" : "file system unknown"
    }
}
