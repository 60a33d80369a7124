// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing

/// What a command takes that requests something for one app.
struct AppRequestOptions: ParsableArguments {
    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app's name in the configuration.") var app: String

    func carryOut(_ request: OperatorRequest, _ report: (OperatorAnswer) -> (Members, String)?) async throws {
        let (members, text) = try await request.carryOut(in: try options.readConfiguration(), .silent, report)
        try output.print(members, text)
    }
}

/// How a command gets work done that only the holder of the lock may do.
extension OperatorRequest {
    private static let timeout = Duration.seconds(10)
    /// How often the command looks for the answer, in a table of one row.
    private static let pollInterval = Duration.milliseconds(10)

    /// Asks the running daemon to carry the request out. If none runs, takes the lock and carries it out here.
    ///
    /// - Parameter progress: shows a long request that goes on here.
    /// - Throws: if the request was not carried out, and will not be later. If the connection was lost, nobody knows.
    func carryOut(in configuration: Configuration, _ progress: ProgressLine = .silent) async throws(CommandFailure) -> OperatorAnswer {
        do {
            let database = try configuration.existingDatabase()
            switch database {
            // Running replicas see the change, because all of it is in the tables.
            case .server: return try await database.openBeside().closing { try await carryOut(on: $0, configuration, progress) }
            case .file: return try await carryOut(inFile: database, configuration, progress)
            }
        } catch {
            throw CommandFailure(database: error)
        }
    }

    /// - Parameter read: takes what the command wants from the answer; nil if it is none to this request.
    func carryOut<Value>(
        in configuration: Configuration,
        _ progress: ProgressLine = .silent,
        _ read: (OperatorAnswer) -> Value?
    ) async throws(CommandFailure) -> Value {
        let answer = try await carryOut(in: configuration, progress)
        guard let value = read(answer) else { throw CommandFailure(answer, to: self) }
        return value
    }

    private func carryOut(
        inFile database: DatabaseLocation,
        _ configuration: Configuration,
        _ progress: ProgressLine
    ) async throws -> OperatorAnswer {
        // The holder of the lock may be gone by the time a request is left: a daemon that stops, or a probe of `siwatch status`.
        var wasExpired = false
        for _ in 1...100 {
            let lock: DatabaseLock
            do {
                lock = try DatabaseLock(database: database.name)
            } catch DatabaseLockError.held {
                let answer = try await database.openBeside().closing(after: { try await ask($0, of: database, configuration) })
                guard let answer else { continue }
                // A daemon that has begun meanwhile carries out no request from before its start.
                if answer == .expired, !wasExpired { wasExpired = true } else { return answer }
                continue
            }
            defer { lock.release() }
            return try await database.open(retention: configuration.retention).closing { store in
                try await carryOut(on: store, configuration, progress)
            }
        }
        throw CommandFailure.unavailable("the lock on \(database.name) changes hands all the time; try again")
    }

    private func carryOut(
        on store: any CredentialStore,
        _ configuration: Configuration,
        _ progress: ProgressLine
    ) async throws -> OperatorAnswer {
        let clock = try await FleetMembership.clock(of: store)
        let rules = configuration.refresh.recheckRules(of: configuration.clientIDs)
        store.trust(try configuration.sealer(of: store), since: clock.now, DecisionFile(beside: configuration.operations.socket))
        let id = try await store.submit(self, at: clock.now)
        defer {
            for planted in store.takePlanted() {
                let (kind, rows) = (planted.kind.rawValue, planted.ids.map(String.init).joined(separator: ", "))
                printError("what siwatch has not written does not count: \(planted.count) of the kind \(kind), rows \(rows)")
            }
        }
        do {
            let end = ContinuousClock.now + Self.timeout
            while true {
                if let answer = try await store.answer(to: id) {
                    if goesOn, try await store.fleet?.isAtWork != true {
                        if case .recheckingApp(let credentials, _, _, _) = answer {
                            progress.begin("scheduling", of: credentials, "checks")
                        }
                        defer { progress.end() }
                        while try await store.handleNextRequest(under: rules, at: clock.now) != nil {
                            progress.add(RecheckPosition.portion)
                        }
                    }
                    return answer
                }
                if .now >= end, try await store.withdraw(id) { throw Self.noAnswer }
                // One at a time, because another operator's recheck may go on for long. A replica may have taken ours.
                if try await store.handleNextRequest(under: rules, at: clock.now) == nil { try await Task.sleep(for: Self.pollInterval) }
            }
        } catch {
            // What is reported as failed must not be carried out later.
            _ = try? await store.withdraw(id)
            throw error
        }
    }

    /// Leaves the request for the daemon and waits for the answer; nil if the daemon has gone meanwhile.
    private func ask(
        _ store: any CredentialStore,
        of database: DatabaseLocation,
        _ configuration: Configuration
    ) async throws -> OperatorAnswer? {
        store.trust(try configuration.sealer(of: store), since: Invocation.current.clock.now, nil)
        let id = try await store.submit(self, at: Invocation.current.clock.now)
        let end = ContinuousClock.now + Self.timeout
        while true {
            if let answer = try await store.answer(to: id) { return answer }
            let isHeld = DatabaseLock.isHeld(database: database.name)
            if isHeld, ContinuousClock.now < end {
                try await Task.sleep(for: Self.pollInterval)
                continue
            }
            guard try await store.withdraw(id) else { continue }
            if isHeld { throw Self.noAnswer }
            return nil
        }
    }

    private static let noAnswer = CommandFailure.unavailable("siwatch has not answered within \(timeout.text); nothing was done")
}
