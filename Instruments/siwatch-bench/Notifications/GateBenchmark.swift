// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation

/// The cost to backends of the trigger that wakes siwatch. Many insert at once, a row to a commit, with the trigger and without, by turns.
///
/// siwatch is stopped, so that it takes no processor time from them. The gate then opens every 250 ms. Else it stays shut.
struct GateBenchmark: Sendable {
    let rounds: Int

    private static let backends = 16
    private static let length = Duration.seconds(5)

    private enum Gate: CaseIterable {
        case none, shut, opening
    }

    func run() async throws -> Section {
        say("The wake-up trigger")
        return try await Workplace.use(on: .postgres) { place in
            try await place.migrate()
            var runs: [Gate: [Run]] = [:]
            for round in 1...rounds {
                say("  round \(round) of \(rounds)")
                // Each variant goes first equally often.
                for index in Gate.allCases.indices {
                    let gate = Gate.allCases[(index + round) % Gate.allCases.count]
                    runs[gate, default: []].append(try await insert(gate, place))
                }
            }
            func rates(_ gate: Gate) -> [Double] { runs[gate, default: []].map(\.perSecond) }
            func times(_ gate: Gate) -> String { runs[gate, default: []].flatMap(\.times).figure(0.5, 0.99) }
            return Section(
                "\(Self.backends) backends that insert at once, a row to a commit: medians of \(rounds) rounds (× = with the trigger ÷ this)",
                [
                    .ours("with the trigger that wakes siwatch", rates(.opening)),
                    .limit(.median("without", rates(.none)), of: rates(.opening).median),
                    .limit(.median("with it, as while siwatch is at work", rates(.shut)), of: rates(.opening).median),
                    .init("an insert with it, p50 / p99", times(.opening)),
                    .init("an insert without, p50 / p99", times(.none)),
                ],
                arguments: "--only postgres-trigger --rounds \(rounds)"
            )
        }
    }

    private struct Run {
        var perSecond: Double
        var times: [Duration]
    }

    private func insert(_ gate: Gate, _ place: Workplace) async throws -> Run {
        try await place.withBackend { backend in
            let trigger = gate == .none ? "DISABLE" : "ENABLE"
            try await backend.execute("ALTER TABLE notification_queue \(trigger) TRIGGER notification_queue_insert")
            try await backend.execute("TRUNCATE notification_queue")
            try await backend.execute("CHECKPOINT")
        }
        guard let schema = place.schema else { throw HarnessError("a file has no trigger") }
        let connections = try (0..<Self.backends).map { _ in try BareServerConnection(schema) }
        // This task ends with the function.
        async let _ = gate == .shut ? keepShut(place) : ()
        let (start, end) = (ContinuousClock.now, ContinuousClock.now + Self.length)
        let times = try await withThrowingTaskGroup(of: [Duration].self) { group in
            for connection in connections {
                let backend = InsertingBackend(connection)
                group.addTask { try await backend.insert(until: end) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        return Run(perSecond: Double(times.count) / (ContinuousClock.now - start).inSeconds, times: times)
    }

    private func keepShut(_ place: Workplace) async throws {
        try await place.withBackend { backend in
            while true {
                try await backend.execute("SELECT setval('notification_queue_quiet', (extract(epoch FROM now()) * 1000)::bigint + 900)")
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }
}

/// A backend on a thread of its own, because libpq blocks it.
private struct InsertingBackend: @unchecked Sendable {
    private let connection: BareServerConnection

    /// The size of one of Apple's.
    private static let payload = String(repeating: "a", count: 900)

    /// - Parameter connection: used by nothing else.
    init(_ connection: BareServerConnection) { self.connection = connection }

    func insert(until end: ContinuousClock.Instant) async throws -> [Duration] {
        try await onThread {
            try connection.prepare("insert", "INSERT INTO notification_queue (payload) VALUES ($1)")
            var times: [Duration] = []
            while ContinuousClock.now < end {
                let start = ContinuousClock.now
                try connection.run("insert", [Self.payload])
                times.append(ContinuousClock.now - start)
            }
            return times
        }
    }
}
