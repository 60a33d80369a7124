// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Appends the requests that wait in one transaction: while one commits, the next ones gather.
actor AppendQueue {
    private let desk: any BackendDesk
    private let clock: WallClock
    private let onAppended: @Sendable (Set<Queue>) -> Void
    typealias Caller = (request: BackendRequest, answer: CheckedContinuation<AppendedRequest, any Error>)
    private(set) var waiting: [Caller] = []
    private var isWriting = false

    /// In one transaction. Settlements wait only briefly for so many.
    private static let portion = 512
    /// Beyond this number the store is behind, and a caller does better to come again.
    private static let mostWaiting = 4096

    init(_ desk: any BackendDesk, clock: WallClock, onAppended: @escaping @Sendable (Set<Queue>) -> Void) {
        (self.desk, self.clock, self.onAppended) = (desk, clock, onAppended)
    }

    func append(_ request: BackendRequest) async throws(Problem) -> AppendedRequest {
        guard waiting.count < Self.mostWaiting else { throw Problem(.unavailable, "too many requests wait for the database") }
        do {
            return try await withCheckedThrowingContinuation { answer in
                waiting.append((request, answer))
                guard !isWriting else { return }
                isWriting = true
                // Not a child of the first caller, because others wait for it as well. It ends once nobody waits.
                Task { await write() }
            }
        } catch StoreError.refused {
            throw Problem(.badRequest, "the tables refuse it")
        } catch {
            throw .unavailable(because: error)
        }
    }

    private func write() async {
        while !waiting.isEmpty {
            let portion = waiting.prefix(Self.portion)
            waiting.removeFirst(portion.count)
            await write(portion)
        }
        isWriting = false
    }

    /// One row may be at fault if the tables refuse a portion. Halves find it, so that the others do not suffer for it.
    private func write(_ callers: ArraySlice<Caller>) async {
        do {
            let answers = try await append(callers.map(\.request))
            for (caller, answer) in zip(callers, answers) { caller.answer.resume(returning: answer) }
        } catch StoreError.refused where callers.count > 1 {
            await write(callers.prefix(callers.count / 2))
            await write(callers.dropFirst(callers.count / 2))
        } catch {
            for caller in callers { caller.answer.resume(throwing: error) }
        }
    }

    private func append(_ requests: [BackendRequest]) async throws -> [AppendedRequest] {
        let rows = try await desk.append(requests, at: clock.now)
        onAppended(Set(requests.map(\.queue)))
        return rows
    }
}

extension BackendRequest {
    fileprivate var queue: Queue {
        switch self {
        case .notification: .notification
        case .signIn: .grant
        case .deletion: .revocation
        }
    }
}

extension AppendedRequest {
    func row() throws(Problem) -> RowReference {
        switch self {
        case .row(let row): return row
        case .erased: throw Problem(.keyUsed, "it told this before, and siwatch has erased the row, as of a forgotten user")
        case .keyUsed: throw Problem(.keyUsed)
        }
    }
}
