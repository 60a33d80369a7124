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

    /// A failure at run time.
    static func failed(_ message: String) -> CommandFailure { CommandFailure(code: .failure, messages: [message]) }
    /// A wrong command line, or input that makes no sense. `EX_USAGE` of sysexits.h.
    static func wrongUsage(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(64), messages: [message]) }
    /// The input is well formed and wrong. `EX_DATAERR` of sysexits.h.
    static func wrongData(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(65), messages: [message]) }
    /// A needed service is down, or another siwatch holds the database. `EX_UNAVAILABLE` of sysexits.h.
    static func unavailable(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(69), messages: [message]) }
    /// Configuration, keys or database are unusable. `EX_CONFIG` of sysexits.h: systemd does not restart siwatch after it.
    static func unusable(_ messages: [String]) -> CommandFailure { CommandFailure(code: ExitCode(78), messages: messages) }
}

extension CommandFailure {
    /// Says why.
    ///
    /// - Returns: the exit code.
    func tell() -> Int32 {
        for message in messages { printError("siwatch: \(message)") }
        return code.rawValue
    }
}

extension CommandFailure: CustomStringConvertible {
    var description: String { messages.joined(separator: "; ") }
}

// MARK: The configuration and its keys

extension CommandFailure {
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
        case let error as AppRenameError: self = error.failure
        case let error as UnusableFile: self = .unusable(["database.path: \(error)"])
        default: self = .unusable(["\(error)"])
        }
    }
}

extension AppRenameError {
    fileprivate var failure: CommandFailure {
        switch self {
        case .unknown(let name, let known):
            .failed("the database knows no app \"\(name.printable)\"; it knows \(known.map(\.printable).joined(separator: ", "))")
        case .taken(let name): .failed("there is an app \"\(name.printable)\" already; two apps cannot become one")
        case .inUse: .unavailable("a siwatch is at work on the database; stop all of them first")
        }
    }
}

// MARK: Operators' requests

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
            self = .wrongUsage(
                "the revocation limit of \((request.app ?? "").printable) is not reached: no request to revoke waits for you"
            )
        case .paused, .resumed, .rejectionsConfirmed, .breakerReset, .revocationsReleased, .rechecking, .recheckingApp, .quarantine,
            .forgotten, .importUndone:
            self = CommandFailure(code: ExitCode(70), messages: ["an answer to another question: \(answer)"])
        }
    }
}
