// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import DaemonHarness
import NIOConcurrencyHelpers
import Testing

@testable import BackendAPI

@Suite(.timeLimit(.minutes(1))) struct AppendQueueTests {
    /// The others are appended, and the database is not asked for each of them.
    @Test func oneRefusedRowIsFoundByHalves() async throws {
        let desk = RefusingDesk()
        let queue = AppendQueue(desk, clock: TestClock(now: .earliest).wallClock) { _ in }
        let refused = try await withThrowingTaskGroup(of: UInt8?.self) { group in
            // Or a failure here would wait for the callers for ever.
            defer { desk.open() }
            func ask(_ body: UInt8) {
                group.addTask {
                    do throws(Problem) {
                        let row = try await queue.append(.notification([body]))
                        #expect(row == .row(RowReference(id: Int64(body), time: .earliest)))
                        return nil
                    } catch {
                        #expect(error.kind == .badRequest)
                        return body
                    }
                }
            }
            ask(0)
            try await eventually { desk.appends == 1 }
            // One is being written, and the others gather.
            for body in UInt8(1)...64 { ask(body) }
            try await eventually { await queue.waiting.count == 64 }
            desk.open()
            return try await group.reduce(into: [UInt8]()) { refused, body in if let body { refused.append(body) } }
        }
        #expect(refused == [RefusingDesk.bad])
        // The first row alone, all others, and two halves of each of six portions.
        #expect(desk.appends <= 14)
    }
}

/// Refuses each portion with one row in it, after it was opened.
private final class RefusingDesk: BackendDesk {
    static let bad: UInt8 = 23
    private let count = NIOLockedValueBox(0)
    private let gate = AsyncStream.makeStream(of: Void.self)

    var appends: Int { count.withLockedValue(\.self) }

    func open() { gate.continuation.finish() }

    func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest] {
        if count.withLockedValue({ count in
            count += 1
            return count == 1
        }) {
            for await _ in gate.stream {}
        }
        let bodies = requests.map { if case .notification(let body) = $0 { body[0] } else { UInt8.max } }
        guard !bodies.contains(Self.bad) else { throw StoreError.refused("a row is at fault") }
        return bodies.map { .row(RowReference(id: Int64($0), time: now)) }
    }

    func settledSignIns(among ids: Set<Int64>) async throws -> [Int64] { [] }
    func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome] { [:] }
    func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome? { nil }
    func userState(of userID: String, in app: String) async throws -> UserState? { nil }
    func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage {
        ChangePage(changes: [], oldest: 1, newest: .beforeAll, last: nil)
    }
}
