// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialTables

extension CommandFailure {
    init(move error: any Error) {
        switch error {
        case let refusal as MoveRefusal: self = refusal.failure
        case let failure as StoreMove.Failure: self = failure.failure
        // No key of a configuration names this database.
        case let error as UnusableFile: self = .unusable(["\(error)".printable])
        default: self = CommandFailure(database: error)
        }
    }
}

extension MoveRefusal {
    fileprivate var failure: CommandFailure {
        switch self {
        case .nothing(let place): .failed("\(place.printable) holds no tables of siwatch")
        case .notEmpty(let place, let tables):
            .failed(
                """
                \(place.printable) is not empty: \(tables.joined(separator: ", ")) \(tables.count == 1 ? "holds" : "hold") rows; nothing was \
                moved. Give another file, or the address with another --schema, or take away what is there
                """
            )
        case .inUse(let place): .unavailable("a siwatch is at work on \(place.printable); stop it first")
        case .elsewhere(let place, let departure):
            .unusable([
                """
                \(place.printable) is on the way to \(departure.destination.printable): repeat the command with \(departure.option), or \
                without --to where the configuration names it
                """
            ])
        case .unreadable(let table, let column, let id):
            .failed(
                """
                \(table)\(id > 0 ? ", row \(id)" : ""): \(column) is not text or not a number that PostgreSQL can hold; nothing was moved. \
                siwatch run --once settles the queues, this row among them
                """
            )
        }
    }
}

extension StoreMove.Failure {
    fileprivate var failure: CommandFailure {
        switch self {
        case .notProved(let proof):
            CommandFailure(
                code: .failure,
                messages: ["what was read back is not what is in the source; nothing was moved"] + proof.lines
            )
        case .unfinished(let departure, let error):
            CommandFailure(
                code: CommandFailure(move: error).code,
                messages: [
                    """
                    siwatch does not know yet whether the move to \(departure.destination.printable) was committed; no siwatch starts on the \
                    source: repeat this command, which finds out
                    """
                ] + CommandFailure(move: error).messages
            )
        }
    }
}

extension Departure {
    /// The options that name the destination on a command line.
    fileprivate var option: String {
        guard let match = destination.wholeMatch(of: /(postgresql:.*), schema (\w+)/) else { return "--to \(destination.shellQuoted)" }
        return "--to \(String(match.1).shellQuoted) --schema \(match.2)"
    }
}
