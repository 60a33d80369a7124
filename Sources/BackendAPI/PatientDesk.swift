// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// A desk in front of a server, which answers in time although the server may be frozen.
///
/// A question that the server leaves open ends as `StoreError`, and goes on behind it. Until it has ended, each further question ends at
/// once: it would only wait behind it, and be asked again by a caller that has gone.
package struct PatientDesk: BackendDesk {
    private let desk: any BackendDesk
    private let patience: Duration
    private let reads = NIOLockedValueBox(0)
    private let writes = NIOLockedValueBox(0)

    /// - Parameter patience: less than clients wait for the door, five seconds by default, and more than the desk waits for a lock.
    package init(_ desk: any BackendDesk, patience: Duration = .seconds(4)) {
        self.desk = desk
        self.patience = patience
    }

    package func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest] {
        // The rows may be written yet.
        try await inTime(writes, else: StoreError.outcomeUnknown) { [desk] in try await desk.append(requests, at: now) }
    }

    package func settledSignIns(among ids: Set<Int64>) async throws -> [Int64] {
        try await inTime(reads) { [desk] in try await desk.settledSignIns(among: ids) }
    }

    package func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome] {
        try await inTime(reads) { [desk] in try await desk.signInOutcomes(ids) }
    }

    package func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome? {
        try await inTime(reads) { [desk] in try await desk.deletionOutcome(id) }
    }

    package func userState(of userID: String, in app: String) async throws -> UserState? {
        try await inTime(reads) { [desk] in try await desk.userState(of: userID, in: app) }
    }

    package func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage {
        try await inTime(reads) { [desk] in try await desk.changes(after: id, of: app, upTo: limit) }
    }

    /// - Parameter open: how many questions of the kind the server has left open.
    private func inTime<Answer: Sendable>(
        _ open: NIOLockedValueBox<Int>,
        else failure: @escaping @Sendable (String) -> StoreError = StoreError.unavailable,
        _ ask: @escaping @Sendable () async throws -> Answer
    ) async throws -> Answer {
        guard open.withLockedValue({ $0 == 0 }) else { throw StoreError.unavailable("it has left an earlier question open") }
        let (answers, first) = AsyncThrowingStream.makeStream(of: Answer.self)
        let phase = NIOLockedValueBox(Phase.asked)
        // Neither is a child of the caller, who would wait for both to end. The answer or its error ends both; the clock ends alone, too.
        let clock = Task { [patience] in
            try await Task.sleep(for: patience)
            phase.withLockedValue { phase in
                guard phase == .asked else { return }
                phase = .late
                open.withLockedValue { $0 += 1 }
            }
            first.finish(throwing: failure("no answer within \(patience.components.seconds) s"))
        }
        Task {
            do {
                first.yield(try await ask())
            } catch {
                first.finish(throwing: error)
            }
            clock.cancel()
            phase.withLockedValue { phase in
                if phase == .late { open.withLockedValue { $0 -= 1 } }
                phase = .ended
            }
        }
        for try await answer in answers { return answer }
        throw CancellationError()
    }

    private enum Phase {
        case asked, late, ended
    }
}
