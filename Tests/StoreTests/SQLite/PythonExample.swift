// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A suite that runs `Examples/sql/siwatch_sql.py`.
protocol PythonExample: ConformanceSuite {}

extension PythonExample {
    /// Runs the Python example, then `more`, which finds the path of the database in `path` and `argument` in `given`.
    ///
    /// - Returns: the program's output, as JSON without spaces.
    func python(given argument: some Encodable = 0, running more: String) async throws -> String {
        let given = String(decoding: try JSONEncoder().encode(argument), as: UTF8.self)
        let start = "\nimport itertools, json, sys\npath, given = sys.argv[1], json.loads(sys.argv[2])\n"
        let finish = "\nprint(json.dumps(found, separators=(',', ':')))\n"
        let script = BackendPages.file("Examples/sql/siwatch_sql.py") + start + more + finish
        let process = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", "-c", script, store.file.path, given])
        let status = await process.exit()
        guard status == 0, let last = process.output.last else {
            throw HarnessError("python3: \(status), \(process.output.joined(separator: "\n"))")
        }
        return last
    }
}
