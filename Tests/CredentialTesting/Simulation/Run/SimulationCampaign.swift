// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Many seeds, one at a time on each core.
package enum SimulationCampaign {
    package struct Result: Sendable {
        package var seeds = 0
        package var steps = 0
        package var requests = 0
        package var tally: [Situation: Int] = [:]
        package var digest: UInt64 = 0
        package var failure: Simulation.Report?
        package var took = Duration.zero

        package var summary: String {
            let perMinute = Double(seeds) / max(took / .seconds(60), 0.001)
            return """
                \(seeds) seeds, \(steps) steps, \(requests) requests in \(took), \(Int(perMinute)) seeds a minute, \
                digest \(String(digest, radix: 16))
                """
        }
    }

    package static func run(
        _ seeds: ClosedRange<UInt64>,
        on databases: SimulatedDatabases = .memory,
        bug: PlantedBug? = nil,
        width: Int = ProcessInfo.processInfo.activeProcessorCount
    ) async -> Result {
        var result = Result()
        let start = ContinuousClock.now
        await withTaskGroup(of: Simulation.Report.self) { group in
            var rest = seeds.makeIterator()
            for _ in 0..<width {
                if let seed = rest.next() { group.addTask { await Simulation.run(seed: seed, on: databases, bug: bug) } }
            }
            for await report in group {
                result.add(report)
                if result.failure == nil, let seed = rest.next() {
                    group.addTask { await Simulation.run(seed: seed, on: databases, bug: bug) }
                }
            }
        }
        result.took = ContinuousClock.now - start
        return result
    }
}

extension SimulationCampaign.Result {
    fileprivate mutating func add(_ report: Simulation.Report) {
        seeds += 1
        steps += report.steps
        requests += report.requests
        digest &+= report.digest
        tally.merge(report.tally, uniquingKeysWith: +)
        if report.violation != nil, failure.map({ report.seed < $0.seed }) ?? true { failure = report }
    }
}

extension Simulation.Report: CustomStringConvertible {
    /// The violation, the history before it, and the line that repeats it.
    package var description: String {
        """
        \(violation.map { "\($0)" } ?? "nothing is wrong")
        Repeat with: \(repeatLine)
        What happened before, in milliseconds:
        \(tail.joined(separator: "\n"))
        """
    }
}

/// FNV-1a. A text has the same number in each process, unlike with Swift's `Hasher`.
struct StableHash {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    init(_ text: String = "") { append(text) }
    mutating func append(_ text: String) { for byte in text.utf8 { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 } }
}
