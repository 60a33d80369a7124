// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

/// The rows of the quarantine that a command is about.
struct QuarantineSelection: ParsableArguments {
    @Argument(help: "As listed.") var ids: [Int64] = []
    @Option(help: ArgumentHelp("All that were rejected for this reason.", valueName: "reason")) var reason: RejectionReason?
    @Flag(help: "All there are.") var all = false

    func validate() throws {
        guard [!ids.isEmpty, reason != nil, all].count(where: { $0 }) == 1 else {
            throw ValidationError("Name either ids, or a --reason, or --all.")
        }
    }

    /// Moves the selected rows, in as many requests as needed.
    ///
    /// - Returns: how many rows were there.
    func carryOut(_ options: CommonOptions, _ request: ([Int64]) -> OperatorRequest) async throws -> Int {
        let configuration = try options.readConfiguration()
        var moved = 0
        var missing: [Int64] = []
        func carryOut(_ ids: [Int64]) async throws {
            let request = request(ids)
            let answer = try await request.carryOut(in: configuration)
            guard case .quarantine(let count, let lost) = answer else { throw CommandFailure(answer, to: request) }
            moved += count
            missing += lost
        }
        if ids.isEmpty {
            // From the newest down, because rows that are added meanwhile have greater ids.
            var before: Int64?
            while true {
                let page = try await configuration.withStore { store in
                    try await store.quarantinedIDs(reason: reason, before: before, upTo: OperatorRequest.mostQuarantined)
                }
                guard let last = page.last else { break }
                try await carryOut(page.reversed())
                before = last
            }
        } else {
            for start in stride(from: 0, to: ids.count, by: OperatorRequest.mostQuarantined) {
                try await carryOut(Array(ids[start..<min(start + OperatorRequest.mostQuarantined, ids.count)]))
            }
            if !missing.isEmpty {
                let names = missing.map(String.init).joined(separator: ", ")
                let absent = missing.count == 1 ? "there is no row \(names)" : "there are no rows \(names)"
                let done =
                    switch moved {
                    case 0: "nothing was done"
                    case 1: "the other one was dealt with"
                    default: "the \(moved) others were dealt with"
                    }
                throw CommandFailure.failed("\(absent) in quarantine; \(done)")
            }
        }
        return moved
    }
}
