// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import SQLiteStore

/// How a command gets something done that only the holder of the lock may do.
extension OperatorRequest {
    private static let timeout = Duration.seconds(10)
    /// How often the answer is looked for, in a table of one row.
    private static let pollInterval = Duration.milliseconds(10)

    /// Has the running daemon carry it out, or takes the lock and does it here where none runs.
    ///
    /// - Throws: where it was not done, and nothing is left behind that might be done later; or where the connection was lost, and nobody
    ///   knows.
    func carryOut(in configuration: Configuration) async throws(CommandFailure) -> OperatorAnswer {
        do {
            let database = try configuration.existingDatabase()
            switch database {
            // The replicas that are at work see what is changed: it is all in the tables.
            case .server: return try await database.openBeside().closing { try await carryOut(on: $0, configuration) }
            case .file(let file): return try await carryOut(in: file, configuration)
            }
        } catch {
            throw CommandFailure(database: error)
        }
    }

    private func carryOut(in file: DatabaseFile, _ configuration: Configuration) async throws -> OperatorAnswer {
        // Whoever held the lock may be gone by the time a request is left: a daemon that stops, a probe of `siwatch status`.
        for _ in 1...100 {
            let lock: DatabaseLock
            do {
                lock = try DatabaseLock(database: file.path)
            } catch DatabaseLockError.held {
                if let answer = try await ask(file) { return answer }
                continue
            }
            defer { lock.release() }
            return try await SQLiteStore.open(file, retention: configuration.retention).closing { store in
                try await carryOut(on: store, configuration)
            }
        }
        throw CommandFailure.unavailable("the lock on \(file.path) changes hands all the time; try again")
    }

    private func carryOut(on store: any CredentialStore, _ configuration: Configuration) async throws -> OperatorAnswer {
        let clock = try await FleetSeat.clock(of: store)
        let rules = configuration.refresh.recheckRules
        let id = try await store.submit(self, at: clock.now)
        do {
            let end = ContinuousClock.now + Self.timeout
            while true {
                if let answer = try await store.answer(to: id) {
                    if try await mustFinish(on: store) { while try await store.handleNextRequest(under: rules, at: clock.now) != nil {} }
                    return answer
                }
                guard .now < end else { throw CommandFailure.unavailable("siwatch has not answered within \(Self.timeout.text)") }
                // One at a time, because a recheck that somebody has asked for goes on for long. A replica may have taken ours.
                if try await store.handleNextRequest(under: rules, at: clock.now) == nil { try await Task.sleep(for: Self.pollInterval) }
            }
        } catch {
            // Nobody is to do later what is said to have failed.
            _ = try? await store.withdraw(id)
            throw error
        }
    }

    /// Whether the request goes on after its answer, and no siwatch runs that would go on with it.
    private func mustFinish(on store: any CredentialStore) async throws -> Bool {
        guard case .recheckApp = self else { return false }
        return try await (store as? any Fleet)?.isAtWork != true
    }

    /// Leaves the request for the daemon and waits.
    ///
    /// - Returns: nil where the daemon has gone meanwhile.
    private func ask(_ file: DatabaseFile) async throws -> OperatorAnswer? {
        let store = try SQLiteStore.openBeside(file)
        defer { try? store.close() }
        let id = try await store.submit(self, at: WallClock.system.now)
        let end = ContinuousClock.now + Self.timeout
        while true {
            if let answer = try await store.answer(to: id) { return answer }
            let isHeld = DatabaseLock.isHeld(database: file.path)
            if isHeld, ContinuousClock.now < end {
                try await Task.sleep(for: Self.pollInterval)
                continue
            }
            guard try await store.withdraw(id) else { continue }
            if isHeld { throw CommandFailure.unavailable("siwatch has not answered within \(Self.timeout.text); nothing was done") }
            return nil
        }
    }
}
