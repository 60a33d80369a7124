// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import GRDBSQLite

struct Machine: CustomStringConvertible {
    private let load = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8))?.split(separator: " ").first ?? "?"

    var description: String {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        let sqlite = String(cString: sqlite3_libversion())
        return "\(Self.build), \(cores) cores, load \(load) before the run, SQLite \(sqlite), \(Self.fileSystem)"
    }

    private static var build: String {
        #if DEBUG
            "DEBUG build (the figures mean nothing)"
        #else
            "release build"
        #endif
    }

    /// The type of the file system that holds the databases. On tmpfs, for one, a durable commit costs nothing.
    private static var fileSystem: String {
        let folder = FileManager.default.temporaryDirectory.resolvingSymlinksInPath().path
        let mounts = (try? String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8)) ?? ""
        let candidates = mounts.split(separator: "\n").compactMap { line -> (point: Substring, type: Substring)? in
            // 36 35 98:0 /root /mount/point options - type source options, with optional fields before the dash.
            let fields = line.split(separator: " ")
            guard fields.count > 4, let dash = fields.firstIndex(of: "-"), dash + 1 < fields.count else { return nil }
            let point = fields[4]
            guard point == "/" || folder == point || folder.hasPrefix("\(point)/") else { return nil }
            return (point, fields[dash + 1])
        }
        // Of two mounts at one place the later one is visible.
        let innermost = candidates.reduce(nil as (point: Substring, type: Substring)?) { best, next in
            best.map { next.point.count >= $0.point.count } ?? true ? next : best
        }
        return innermost.map { String($0.type) } ?? "file system unknown"
    }
}
