// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import DaemonHarness
import NIOConcurrencyHelpers
import Testing

@Suite(.timeLimit(.minutes(1))) struct PatientDeskTests {
    /// Until the late answer has come, no second question waits behind the first one.
    @Test func whatTheServerLeavesOpenIsAskedOnce() async throws {
        let frozen = FrozenDesk()
        let desk = PatientDesk(frozen, patience: .milliseconds(10))
        for _ in 1...5 {
            await #expect(throws: StoreError.self) { _ = try await desk.settledSignIns(among: []) }
        }
        #expect(frozen.asked == 1)
        // A write has a connection of its own.
        await #expect(throws: StoreError.self) { _ = try await desk.append([], at: .earliest) }
        #expect(frozen.asked == 2)
        frozen.thaw()
        try await eventually { (try? await desk.settledSignIns(among: [])) != nil }
        #expect(frozen.asked == 3)
    }
}

/// Answers nobody until it thaws.
private final class FrozenDesk: BackendDesk {
    private let state = NIOLockedValueBox((asked: 0, isThawed: false, gates: [AsyncStream<Void>.Continuation]()))

    var asked: Int { state.withLockedValue(\.asked) }

    func thaw() {
        state.withLockedValue { state in
            state.isThawed = true
            for gate in state.gates { gate.finish() }
        }
    }

    private func ask() async {
        let (gate, continuation) = AsyncStream.makeStream(of: Void.self)
        state.withLockedValue { state in
            state.asked += 1
            state.gates.append(continuation)
            if state.isThawed { continuation.finish() }
        }
        for await _ in gate {}
    }

    func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest] {
        await ask()
        return []
    }

    func settledSignIns(among ids: Set<Int64>) async throws -> [Int64] {
        await ask()
        return []
    }

    func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome] { [:] }
    func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome? { nil }
    func userState(of userID: String, in app: String) async throws -> UserState? { nil }
    func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage {
        ChangePage(changes: [], oldest: 1, newest: .beforeAll, last: nil)
    }
}
