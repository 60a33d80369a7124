// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A `dev` at work, as `trigger` finds it: a file in its folder, for its own user alone.
struct DevRecord: Codable {
    var pid: Int32
    /// The URL of the simulated Apple.
    var apple: String
    var page: String
    var folder: String

    static let folderName = "siwatch-dev"
    static let fileName = "dev.json"

    /// Where their folders are; a new one goes into the first.
    static var places: [URL] {
        let runtime = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"] ?? ""
        let places = FileManager.default.isWritableFile(atPath: runtime) ? [URL(filePath: runtime)] : []
        let temporary = FileManager.default.temporaryDirectory
        return places.contains { $0.path == temporary.path } ? places : places + [temporary]
    }

    var text: String {
        get throws { String(decoding: try JSONEncoder().encode(self), as: UTF8.self) }
    }

    /// The only one at work, or the one that is named.
    static func find(_ pid: Int32?) throws -> DevRecord {
        let records = places.flatMap(all)
        let fitting = records.filter { pid == nil || $0.pid == pid }
        if fitting.count == 1 { return fitting[0] }
        let list = records.map { "  --pid \($0.pid)    \($0.page)" }.joined(separator: "\n")
        switch (records.isEmpty, pid) {
        case (true, _): throw HarnessError("No siwatch-simulator dev is at work here. Start one in another terminal: siwatch-simulator dev")
        case (false, let pid?): throw HarnessError("No siwatch-simulator dev has the process number \(pid). At work are:\n\(list)")
        case (false, nil): throw HarnessError("Several siwatch-simulator dev are at work. Name one:\n\(list)")
        }
    }

    private static func all(in place: URL) -> [DevRecord] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: place.path)) ?? []
        return names.filter { $0.hasPrefix("\(folderName)-") }.sorted().compactMap { name in
            let file = place.appending(path: "\(name)/\(fileName)")
            // Any user may make such a folder in a place that all share.
            var entry = stat()
            guard lstat(file.path, &entry) == 0, entry.st_uid == geteuid(), let text = try? Data(contentsOf: file),
                let record = try? JSONDecoder().decode(DevRecord.self, from: text), kill(record.pid, 0) == 0
            else { return nil }
            return record
        }
    }
}
