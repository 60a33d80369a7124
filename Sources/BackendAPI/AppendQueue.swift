// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Appends the requests that wait in one transaction: while one commits, the next ones gather.
///
/// A lock and not an actor, because a request that only joins the others needs no change of thread.
final class AppendQueue: Sendable {
    private let desk: any BackendDesk
    private let clock: WallClock
    private let onAppended: @Sendable (Set<Queue>) -> Void
    private let state = NIOLockedValueBox(State())

    private struct State {
        var waiting: [Waiting] = []
        var isWriting = false
    }

    private struct Waiting {
        var request: BackendRequest
        var answer: CheckedContinuation<AppendedRequest, any Error>
    }

    private enum Turn {
        case refused
        case joined
        case first
    }

    /// In one transaction. Settlements wait only briefly for so many.
    private static let portion = 512
    /// Beyond this number the store is behind, and a caller does better to come again.
    private static let mostWaiting = 4096

    init(_ desk: any BackendDesk, clock: WallClock, onAppended: @escaping @Sendable (Set<Queue>) -> Void) {
        self.desk = desk
        self.clock = clock
        self.onAppended = onAppended
    }

    /// Returns after the commit.
    func append(_ request: BackendRequest) async throws(Problem) -> AppendedRequest {
        do {
            return try await withCheckedThrowingContinuation { answer in
                let turn = state.withLockedValue { state -> Turn in
                    guard state.waiting.count < Self.mostWaiting else { return .refused }
                    state.waiting.append(Waiting(request: request, answer: answer))
                    defer { state.isWriting = true }
                    return state.isWriting ? .joined : .first
                }
                switch turn {
                case .refused: answer.resume(throwing: Problem(.unavailable, "too many requests wait for the database"))
                case .joined: break
                // Not a child of the first caller, because others wait for it as well.
                case .first: Task { await write() }
                }
            }
        } catch StoreError.refused {
            throw Problem(.badRequest, "the tables refuse it")
        } catch let problem as Problem {
            throw problem
        } catch {
            // The words of the error may name hosts and files, and anybody can ask here. /readyz says what is wrong.
            throw Problem(.unavailable)
        }
    }

    private func write() async {
        while let portion = next() {
            do {
                let answers = try await append(portion.map(\.request))
                for (caller, answer) in zip(portion, answers) { caller.answer.resume(returning: answer) }
            } catch StoreError.refused where portion.count > 1 {
                // One row may be at fault. The others are not to suffer for it.
                for caller in portion { await writeAlone(caller) }
            } catch {
                for caller in portion { caller.answer.resume(throwing: error) }
            }
        }
    }

    /// Nil, and the end of the writing, if nobody waits.
    private func next() -> [Waiting]? {
        state.withLockedValue { state in
            let portion = Array(state.waiting.prefix(Self.portion))
            state.waiting.removeFirst(portion.count)
            state.isWriting = !portion.isEmpty
            return portion.isEmpty ? nil : portion
        }
    }

    private func writeAlone(_ caller: Waiting) async {
        do {
            caller.answer.resume(returning: try await append([caller.request])[0])
        } catch {
            caller.answer.resume(throwing: error)
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
