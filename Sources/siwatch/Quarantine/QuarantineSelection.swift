// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct QuarantineSelection: ParsableArguments {
    @Argument(help: "As listed.") var ids: [Int64] = []
    @Option(help: ArgumentHelp("All that were rejected for this reason.", valueName: "reason")) var reason: RejectionReason?
    @Flag(help: "All there are.") var all = false

    func validate() throws {
        guard [!ids.isEmpty, reason != nil, all].count(where: { $0 }) == 1 else {
            throw ValidationError("Name either ids, or a --reason, or --all.")
        }
    }

    /// Moves the selected rows, in as many requests as needed, and says how many were there.
    func carryOut(_ options: CommonOptions, _ request: ([Int64]) -> OperatorRequest) async throws -> Int {
        let configuration = try options.readConfiguration()
        var (moved, missing, rest) = (0, [Int64](), ids[...])
        // From the newest down, because rows that are added meanwhile have greater ids.
        var before: Int64?
        while true {
            let portion: [Int64]
            if ids.isEmpty {
                let page = try await configuration.withStore { [before] store in
                    try await store.quarantinedIDs(reason: reason, before: before, upTo: OperatorRequest.mostQuarantined)
                }
                portion = page.reversed()
                before = page.last
            } else {
                portion = Array(rest.prefix(OperatorRequest.mostQuarantined))
                rest = rest.dropFirst(portion.count)
            }
            if portion.isEmpty { break }
            let (count, lost): (Int, [Int64]) = try await request(portion).carryOut(in: configuration) {
                if case .quarantine(let count, let lost) = $0 { (count, lost) } else { nil }
            }
            moved += count
            missing += lost
        }
        if ids.isEmpty || missing.isEmpty { return moved }
        let names = missing.map(String.init).joined(separator: ", ")
        let absent = missing.count == 1 ? "there is no row \(names)" : "there are no rows \(names)"
        let done = moved == 0 ? "nothing was done" : "\(moved.counted("other was", "others were")) dealt with"
        throw CommandFailure.failed("\(absent) in quarantine; \(done)")
    }
}
