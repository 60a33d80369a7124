// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Dispatch

/// A connection, and the thread that it blocks. Callers wait in order. It connects on first use, and again after a loss.
actor ConnectionThread {
    private let address: PostgresAddress
    private let kind: SessionKind
    private let patience: Duration?
    private var connection: Connection?
    /// The last attempt that failed for want of a connection: the error, how long it took, and when it ended.
    private var failure: (error: any Error, took: Duration, endedAt: ContinuousClock.Instant)?
    private nonisolated let executor: QueueExecutor

    /// Waits between looks for the outcome of a COMMIT whose answer was lost. Together they last as long as a server takes to restart. If
    /// the network is down, the second look comes too soon to connect again.
    private static let looks: [Duration] = [.zero, .milliseconds(200), .seconds(1), .seconds(3)]
    /// siwatch does not repeat an attempt that failed slowly for this long.
    private static let longestPause = Duration.seconds(1)

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// - Parameter patience: how long a call waits in line and for a silent server, together. Nil if nobody waits for the call.
    init(_ address: PostgresAddress, _ kind: SessionKind = SessionKind(), patience: Duration? = nil, label: String) {
        self.address = address
        self.kind = kind
        self.patience = patience
        executor = QueueExecutor(label: label)
    }

    /// The caller came at `start`.
    /// - Throws: `StoreError` if a statement fails.
    func run<Value: Sendable>(since start: ContinuousClock.Instant = .now, _ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try attempt(since: start, body)
    }

    private func attempt<Value>(since start: ContinuousClock.Instant = .now, _ body: (Connection) throws -> Value) throws -> Value {
        let silence = patience.map { $0 - start.duration(to: .now) } ?? Connection.longestSilence
        guard silence > .zero else { throw StoreError.unavailable("earlier questions have taken too long") }
        do {
            let connection = try ready()
            connection.longestSilence = silence
            let begin = ContinuousClock.now
            do {
                let value = try body(connection)
                try connection.flush()
                return value
            } catch {
                let took = begin.duration(to: .now)
                defer { if self.connection == nil, took >= Self.longestPause { failure = (error, took, .now) } }
                try recover(connection, from: error)
            }
        } catch let error as PostgresError {
            throw StoreError(error)
        }
    }

    /// Runs one transaction. Statements that `body` sends without waiting go with the COMMIT.
    func transaction<Value: Sendable>(
        since start: ContinuousClock.Instant = .now,
        _ body: @Sendable (Connection) throws -> Value
    ) throws -> Value {
        try run(since: start) { connection in
            try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
            let value = try body(connection)
            try connection.sendCommit()
            return value
        }
    }

    /// Runs one transaction, and finds out whether its COMMIT happened, even if the answer is lost.
    /// - Parameters:
    ///   - body: sends the whole transaction with the COMMIT. The closure that it returns gives the value after the commit.
    ///   - isCommitted: looks over another connection; nil if it cannot tell.
    /// - Throws: `StoreError`; `outcomeUnknown` only if the server stays away.
    func provenTransaction<Value: Sendable>(
        _ body: @Sendable (Connection) throws -> () throws -> Value,
        isCommitted: @Sendable (Connection) throws -> Bool?
    ) async throws -> Value {
        var value: (() throws -> Value)?
        do {
            return try attempt { connection in
                value = try body(connection)
                try connection.flush()
                return try value!()
            }
        } catch StoreError.outcomeUnknown(let reason) where connection == nil {
            switch await find(isCommitted) {
            case true?: return try value!()
            case false?: throw StoreError.retry(reason)
            case nil: throw StoreError.outcomeUnknown(reason)
            }
        }
    }

    private func find(_ isCommitted: (Connection) throws -> Bool?) async -> Bool? {
        for wait in Self.looks {
            try? await Task.sleep(for: wait)
            do {
                return try attempt(isCommitted)
            } catch StoreError.unavailable, StoreError.retry {
                // The server may be back at the next look, or the other connection may have ended its wait.
            } catch {
                return nil
            }
        }
        return nil
    }

    /// Runs the work and blocks the caller: while the store is opened, and for operators' commands.
    nonisolated func wait<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try executor.queue.sync { try assumeIsolated { try $0.run(body) } }
    }

    nonisolated func waitForTransaction<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try executor.queue.sync { try assumeIsolated { try $0.transaction(body) } }
    }

    func close() { connection = nil }

    private func ready() throws -> Connection {
        if let connection, !connection.hasEnded { return connection }
        connection = nil
        // If the network is down or the server is frozen, each attempt takes seconds. A caller that waited behind one gets its error at once.
        if let failure, failure.endedAt.duration(to: .now) < min(failure.took, Self.longestPause) { throw failure.error }
        let start = ContinuousClock.now
        do {
            let connection = try Connection(address, kind)
            self.connection = connection
            failure = nil
            return connection
        } catch {
            failure = (error, start.duration(to: .now), .now)
            throw error
        }
    }

    private func recover(_ connection: Connection, from error: any Error) throws -> Never {
        let mayBeCommitted = connection.mayBeCommitted
        var holders: [String] = []
        do {
            if let error = error as? PostgresError, error.endsConnection { throw error }
            try connection.rollBack()
            if let error = error as? PostgresError, error.isLockTimeout { holders = try connection.lockHolders(in: address) }
        } catch {
            self.connection = nil
        }
        guard let error = error as? PostgresError else { throw error }
        if !holders.isEmpty { throw StoreError.retry("\(error), held by \(holders.joined(separator: ", "))") }
        throw StoreError(error, mayBeCommitted: mayBeCommitted)
    }
}

final class QueueExecutor: SerialExecutor {
    let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func checkIsolated() { dispatchPrecondition(condition: .onQueue(queue)) }
}
