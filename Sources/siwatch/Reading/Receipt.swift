// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing

struct Receipt: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows that a user's tokens were revoked at Apple, or how far that is.",
        discussion: """
            For an auditor, for instance: each token of each request, with the three answers by which its end was \
            proved (a good refresh, the revocation, a rejected refresh), when each was asked for and how Apple dated it, and the key that \
            signed. Requests that wait say how far they are. No token is shown. What is older than retention.revocation_log is gone. The \
            receipts of a forgotten user are shown too, if the sealing key can be read.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "Apple's `sub` of the user.") var user: String
    @Option(help: ArgumentHelp("Only what concerns this app.", valueName: "name")) var app: String?

    func run() async throws {
        let configuration = try options.readConfiguration()
        var (history, now) = try await configuration.withStore { store in
            if let app { try await store.demand(app) }
            var history = try await store.revocations(of: user)
            // The receipts of a forgotten user stand under a pseudonym, which takes the sealing key.
            if let pseudonym = try? configuration.sealer(of: store).pseudonym(of: user) {
                history.revocations = try await store.revocations(of: pseudonym).revocations + history.revocations
            }
            return (history, try await FleetMembership.clock(of: store).now)
        }
        if let app {
            history.revocations.removeAll { $0.app != app }
            history.waiting.removeAll { $0.app != app }
            history.tokensBeingRevoked.removeAll { $0.app != app }
        }
        guard !history.isEmpty else {
            let place = app.map { " in \($0.printable)" } ?? ""
            throw CommandFailure.failed("no request to revoke is known of the user \(user.printable)\(place)")
        }
        let report = RevocationReport(of: user, history, watching: configuration.clientIDs, at: now)
        try output.print(report, report.text)
    }
}
