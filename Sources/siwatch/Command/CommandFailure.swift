// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing
import Foundation

/// Why a command ends early: sentences for people, and an exit code for programs.
struct CommandFailure: Error {
    var code: ExitCode
    var messages: [String]

    /// Whether another try soon may help.
    var isTransient: Bool { code == ExitCode(69) }

    static func failed(_ message: String) -> CommandFailure { CommandFailure(code: .failure, messages: [message]) }
    /// A wrong command line, or input that makes no sense. `EX_USAGE` of sysexits.h.
    static func wrongUsage(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(64), messages: [message]) }
    /// The input is well formed and wrong. `EX_DATAERR` of sysexits.h.
    static func wrongData(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(65), messages: [message]) }
    /// A needed service is down, or another siwatch holds the database. `EX_UNAVAILABLE` of sysexits.h.
    static func unavailable(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(69), messages: [message]) }
    /// Configuration, keys or database are unusable. `EX_CONFIG` of sysexits.h: systemd does not restart siwatch after it.
    static func unusable(_ messages: [String]) -> CommandFailure { CommandFailure(code: ExitCode(78), messages: messages) }

    /// - Returns: the exit code.
    func tell() -> Int32 {
        for message in messages { printError("siwatch: \(message)") }
        return code.rawValue
    }
}

extension CommandFailure: CustomStringConvertible {
    var description: String { messages.joined(separator: "; ") }

    // MARK: The configuration and its keys

    init(_ configuration: InvalidConfiguration) { self = .unusable(configuration.lines) }

    static func missingKey(of configuration: Configuration) -> CommandFailure {
        .unusable([
            """
            encryption.key_file: \(configuration.encryption.keyFile) is missing, and the database holds tokens that were sealed \
            with it; restore it from its backup
            """
        ])
    }

    static func wrongKey(of configuration: Configuration, _ error: SealingError) -> CommandFailure {
        .unusable(["encryption.key_file: \(configuration.encryption.keyFile) does not open this database: \(error)"])
    }
}

// MARK: The database

extension CommandFailure {
    /// Another try soon may help a database that is in use or full, but not one that is damaged or not siwatch's.
    init(database error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case DatabaseLockError.held: self = .unavailable("\(error)")
        case let error as StoreError:
            switch error {
            case .busy, .retry, .unavailable, .full, .outcomeUnknown: self = .unavailable("\(error)")
            case .readOnly: self = .unusable(["\(error); siwatch doctor, as the service's user, says why"])
            case .damaged, .refused: self = .unusable(["\(error)"])
            }
        case AppRenameError.unknown(let name, let known):
            self = .failed("the database knows no app \"\(name.printable)\"; it knows \(known.map(\.printable).joined(separator: ", "))")
        case AppRenameError.taken(let name): self = .failed("there is an app \"\(name.printable)\" already; two apps cannot become one")
        case AppRenameError.inUse: self = .unavailable("a siwatch is at work on the database; stop all of them first")
        case let error as UnusableFile: self = .unusable(["database.path: \(error)"])
        default: self = .unusable(["\(error)"])
        }
    }
}

// MARK: Operators' requests

extension CommandFailure {
    init(_ answer: OperatorAnswer, to request: OperatorRequest) {
        let app = (request.app ?? "").printable
        switch answer {
        case .unknownApp(let known):
            self = .failed("there is no app \"\(app)\"; there is \(known.map(\.printable).joined(separator: ", "))")
        case .unknownUser: self = .failed("nothing is known of the user \((request.userID ?? "").printable)")
        case .expired: self = .unavailable("siwatch was too late to take the request; nothing was done")
        case .notUnderstood: self = .unavailable("the siwatch that runs does not understand this request; is it of another version?")
        case .refused(let reason): self = .failed("the database refuses it: \(reason)")
        case .nothingToConfirm:
            self = .wrongUsage("the breaker of \(app) is closed and no rejection waits: there is nothing to confirm")
        case .stillAuthorized(let apps):
            self = .failed(
                """
                the user is signed in to \(apps.map(\.printable).joined(separator: ", ")), so nothing was erased: let a backend insert a \
                request into revocation_queue, and forget the user once siwatch explain says --receipts that the tokens are revoked; \
                with --even-if-authorized, any token is lost without being revoked
                """
            )
        case .stillWaiting(let rows):
            let names = rows.map { "\($0.table) \($0.id)" }.joined(separator: ", ")
            self = .failed("rows of the user are not settled (\(names)), so nothing was erased: siwatch explain says what they wait for")
        case .limitNotReached:
            self = .wrongUsage("the revocation limit of \(app) is not reached: no request to revoke waits for you")
        case .paused, .resumed, .rejectionsConfirmed, .breakerReset, .revocationsReleased, .rechecking, .recheckingApp, .quarantine,
            .forgotten, .importUndone:
            self = CommandFailure(code: ExitCode(70), messages: ["an answer to another question: \(answer)"])
        }
    }
}

extension CommandFailure {
    /// A word in the place of a command that names none; else nil. ArgumentParser suggests options, but no commands.
    init?(unknownCommandIn words: some Sequence<String>) {
        var (command, path): (any ParsableCommand.Type, String) = (Siwatch.self, Siwatch._commandName)
        for word in words {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = commands.first(where: { $0._commandName == word || $0.configuration.aliases.contains(word) }) else {
                let near = word.nearest(among: commands.map { $0._commandName }).map { "; did you mean \(path) \($0)?" } ?? ""
                self = .wrongUsage("\(path) has no command \"\(word.printable)\"\(near)\n\(path) --help lists all commands")
                return
            }
            command = next
            path += " \(word)"
        }
        return nil
    }
}
