// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// `openssl speed`: how many RS256 signatures a second the machine can verify, by OpenSSL's code.
enum OpenSSLSpeed {
    static func verifications(by processes: Int) async throws -> Limit {
        // Wall-clock time, as in all figures here, because a busy machine has less to give.
        let options = ["-mr", "-elapsed", "-seconds", "2"] + (processes > 1 ? ["-multi", "\(processes)"] : [])
        let openssl = try ChildProcess(URL(filePath: "/usr/bin/env"), ["openssl", "speed"] + options + ["rsa2048"])
        let status = try await openssl.end()
        let label = processes == 1 ? "1 process" : "\(processes) processes"
        return Limit("openssl speed rsa2048, verify, \(label)", reading(status, openssl.output))
    }

    private static func reading(_ status: Int32, _ output: [String]) -> Limit.Reading {
        switch status {
        case 0:
            // +F2:index:bits:signatures a second:verifications a second. With several processes, their sum comes last.
            let fields = output.last { $0.contains("+F2:") }?.split(separator: ":") ?? []
            return fields.count > 4 ? Double(fields[4]).map { .perSecond($0) } ?? unreadable : unreadable
        // The exit code of env for a missing program.
        case 127:
            return .unknown("openssl is not installed")
        default:
            return .unknown("openssl ended with \(status)")
        }
    }

    private static let unreadable = Limit.Reading.unknown("openssl says something else")
}
