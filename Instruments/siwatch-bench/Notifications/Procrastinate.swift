// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A job queue on PostgreSQL, from the Python Package Index. Its jobs do nothing here. siwatch could otherwise build on it.
enum Procrastinate {
    private static let jobs = 2_000
    private static let script = "scripts/bench_procrastinate.py"

    static func noOpJobsPerSecond() async throws -> Limit.Reading {
        try await BenchServer.withDatabase { schema in
            let python = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", script, schema.url, "\(jobs)"])
            let status = try await python.end()
            switch status {
            case 0: return python.output.last.flatMap(Double.init).map { .perSecond($0) } ?? .unknown("\(script) says something else")
            // The script's exit code for a missing package, and the shell's for a missing program.
            case 69, 127: return .unknown("not installed: pip install procrastinate 'psycopg[binary]', and its python3 first in the PATH")
            default: return .unknown("\(script) ended with \(status)")
            }
        }
    }

    static func limit(_ readings: [Limit.Reading]) -> Limit {
        let label = "procrastinate, no-op jobs"
        var rates: [Double] = []
        for reading in readings {
            switch reading {
            case .perSecond(let rate): rates.append(rate)
            case .unknown: return Limit(label, reading)
            }
        }
        return .median(label, rates)
    }
}
