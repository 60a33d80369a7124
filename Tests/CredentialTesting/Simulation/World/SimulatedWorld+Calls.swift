// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Calls of the store. The process may die in them, and the store may fail.
extension SimulatedWorld {
    /// How the store fails. The commit has happened with `unknownAfter` only.
    enum StoreTrouble: Sendable {
        case busy, full, unknownBefore, unknownAfter

        /// The error that the process gets.
        var error: StoreError {
            switch self {
            case .busy: .busy
            case .full: .full()
            case .unknownBefore, .unknownAfter: .outcomeUnknown(StoreError.simulated)
            }
        }
    }

    /// A call of the store. The process may die before or after it.
    ///
    /// - Parameter effect: the model's update, whether or not the process gets the result.
    func call<Value: Sendable>(
        _ body: () async throws -> Value,
        effect: (inout State, Value) -> Void = { _, _ in }
    ) async throws -> Value {
        let dies = with { $0.mustCrash() }
        if dies, !with({ $0.diesAfterEffect }) { throw Crash() }
        let value = try await body()
        with { effect(&$0, value) }
        if dies {
            with { $0.count(.crashAfterCommit) }
            throw Crash()
        }
        return value
    }

    /// A read for a decision. It may fail, and the process may die before or after it.
    func read<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        if let trouble = with({ $0.nextTrouble() }) {
            with { $0.count(.readFailed) }
            throw trouble.error
        }
        return try await call(body)
    }
}

extension SimulatedWorld.State {
    /// The trouble of the next call of the store; nil if it works.
    mutating func nextTrouble() -> SimulatedWorld.StoreTrouble? {
        storeTrouble.isEmpty ? nil : storeTrouble.removeFirst()
    }

    /// Whether the process dies at this call, by the plan.
    mutating func mustCrash() -> Bool {
        guard let left = portCallsToCrash else { return false }
        portCallsToCrash = left - 1
        return left <= 0
    }
}

extension StoreError {
    fileprivate static let simulated = "simulated"

    /// Whether the simulation made it up. Any other error is a bug and ends the run.
    var isSimulated: Bool {
        switch self {
        case .busy, .full: true
        case .outcomeUnknown(let text): text == Self.simulated
        case .retry, .unavailable, .refused, .damaged, .readOnly: false
        }
    }
}

/// The process died.
struct Crash: Error {}
