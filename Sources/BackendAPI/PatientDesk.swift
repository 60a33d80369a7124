// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A desk that answers in time: a question that a frozen server leaves open ends as `StoreError`, and its answer is dropped.
struct PatientDesk: BackendDesk {
    let desk: any BackendDesk

    /// Beyond a lock's five seconds on SQLite. A follower's 25 seconds and three of these end within the door's 45.
    static let patience = Duration.seconds(6)

    func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest] {
        // The rows may be written yet.
        try await inTime(else: StoreError.outcomeUnknown) { try await desk.append(requests, at: now) }
    }

    func settledSignIns(among ids: Set<Int64>) async throws -> [Int64] {
        try await inTime { try await desk.settledSignIns(among: ids) }
    }

    func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome] {
        try await inTime { try await desk.signInOutcomes(ids) }
    }

    func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome? {
        try await inTime { try await desk.deletionOutcome(id) }
    }

    func userState(of userID: String, in app: String) async throws -> UserState? {
        try await inTime { try await desk.userState(of: userID, in: app) }
    }

    func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage {
        try await inTime { try await desk.changes(after: id, of: app, upTo: limit) }
    }

    private func inTime<Answer: Sendable>(
        else failure: @escaping @Sendable (String) -> StoreError = StoreError.unavailable,
        _ ask: @escaping @Sendable () async throws -> Answer
    ) async throws -> Answer {
        let (answers, first) = AsyncThrowingStream.makeStream(of: Answer.self)
        // Not children of the caller, which would wait for both to end.
        Task {
            do {
                first.yield(try await ask())
            } catch {
                first.finish(throwing: error)
            }
        }
        let clock = Task {
            try await Task.sleep(for: Self.patience)
            first.finish(throwing: failure("no answer within \(Self.patience.components.seconds) s"))
        }
        defer { clock.cancel() }
        for try await answer in answers { return answer }
        throw CancellationError()
    }
}
