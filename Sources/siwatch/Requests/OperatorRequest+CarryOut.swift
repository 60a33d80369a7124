// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import SQLiteStore

/// How a command gets something done that only the holder of the lock may do.
extension OperatorRequest {
    private static let patience = Duration.seconds(10)
    /// How often the answer is looked for, in a table of one row.
    private static let look = Duration.milliseconds(10)

    /// Has the running daemon carry it out, or takes the lock and does it here where none runs.
    ///
    /// - Throws: where it was not done; nothing is left behind that might be done later.
    func carryOut(in configuration: Configuration) async throws(CommandFailure) -> OperatorAnswer {
        do {
            let file = try DatabaseFile.existing(in: configuration)
            // Whoever held the lock may be gone by the time a request is left: a daemon that stops, a glance of `siwatch status`.
            for _ in 1...100 {
                let lock: DatabaseLock
                do {
                    lock = try DatabaseLock(database: file.path)
                } catch DatabaseLockError.held {
                    if let answer = try await ask(file) { return answer }
                    continue
                }
                defer { lock.release() }
                return try await carryOutHere(file, configuration)
            }
            throw CommandFailure.unavailable("the lock on \(file.path) changes hands all the time; try again")
        } catch {
            throw CommandFailure(database: error)
        }
    }

    private func carryOutHere(_ file: DatabaseFile, _ configuration: Configuration) async throws -> OperatorAnswer {
        let store = try SQLiteStore.open(file, retention: Retention(configuration.retention))
        defer { try? store.close() }
        let clock = WallClock.system
        let id = try await store.submit(self, at: clock.now)
        while try await store.handleNextRequest(under: RecheckRules(configuration.refresh), at: clock.now) != nil {}
        return try await store.answer(to: id) ?? .expired
    }

    /// Leaves the request for the daemon and waits.
    ///
    /// - Returns: nil where the daemon has gone meanwhile.
    private func ask(_ file: DatabaseFile) async throws -> OperatorAnswer? {
        let store = try SQLiteStore.openBeside(file)
        defer { try? store.close() }
        let id = try await store.submit(self, at: WallClock.system.now)
        let end = ContinuousClock.now + Self.patience
        while true {
            if let answer = try await store.answer(to: id) { return answer }
            let isHeld = DatabaseLock.isHeld(database: file.path)
            if isHeld, ContinuousClock.now < end {
                try await Task.sleep(for: Self.look)
                continue
            }
            guard try await store.withdraw(id) else { continue }
            if isHeld { throw CommandFailure.unavailable("siwatch has not answered within \(Self.patience.text); nothing was done") }
            return nil
        }
    }
}

extension DatabaseFile {
    /// The database of a configuration, once it is seen to be there and ours.
    static func existing(in configuration: Configuration) throws(CommandFailure) -> DatabaseFile {
        let file = DatabaseFile(path: configuration.database.path)
        do {
            if try file.inspect(isInUse: DatabaseLock.isHeld(database: file.path)) != .none { return file }
        } catch {
            throw CommandFailure(database: error)
        }
        throw .unusable(["database.path: \(file.path) is not there yet; siwatch migrate creates it"])
    }
}

extension CommandFailure {
    /// The answers that no command expects.
    init(_ answer: OperatorAnswer, to request: OperatorRequest) {
        switch answer {
        case .unknownApp(let known):
            let names = known.map(\.printable).joined(separator: ", ")
            self = .failed("there is no app \"\((request.app ?? "").printable)\"; there is \(names)")
        case .unknownUser:
            self = .failed("nothing is known of the user \((request.userID ?? "").printable)")
        case .expired:
            self = .unavailable("siwatch was too late to take the request; nothing was done")
        case .notUnderstood:
            self = .unavailable("the siwatch that runs does not understand this request; is it of another version?")
        case .refused(let reason):
            self = .failed("the database refuses it: \(reason)")
        case .nothingToConfirm:
            self = .wrongUsage(
                "the breaker of \((request.app ?? "").printable) is closed and no rejection waits: there is nothing to confirm"
            )
        case .paused, .resumed, .rejectionsConfirmed, .breakerReset, .rechecking, .recheckingApp, .quarantine:
            self = CommandFailure(code: ExitCode(70), messages: ["an answer to another question: \(answer)"])
        }
    }
}
