// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The system resources of a process.
struct Footprint {
    let descriptors: Int
    let threads: Int
    /// In MiB.
    let memory: Int

    init(of process: pid_t) {
        func count(_ folder: String) -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/\(folder)"))?.count ?? 0
        }
        descriptors = count("fd")
        threads = count("task")
        let status = FileManager.default.contents(atPath: "/proc/\(process)/status").map { String(decoding: $0, as: UTF8.self) }
        memory = (status?.firstMatch(of: /VmRSS:\s*([0-9]+) kB/)?.1).flatMap { Int($0) }.map { $0 >> 10 } ?? 0
    }

    /// A pool keeps connections to Apple for a while, Dispatch keeps threads, and an allocator keeps the memory of a wave.
    func excess(over before: Footprint) -> String? {
        guard descriptors > before.descriptors + 32 || threads > before.threads + 16 || memory > before.memory + 32 else { return nil }
        return "\(self) after \(before)"
    }
}

extension Footprint: CustomStringConvertible {
    var description: String { "\(descriptors) descriptors, \(threads) threads and \(memory) MiB" }
}
