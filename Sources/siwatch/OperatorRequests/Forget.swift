// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing

struct Forget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Erases everything that is known of a user, in one transaction.",
        discussion: """
            For a person who asks under GDPR article 17. Let the backend end the sessions, delete the account and request the revocation \
            first. siwatch does not forget a user who is signed in or who has a waiting row. A pseudonym stays, which names nobody without \
            the sealing key, with the time up to which no fact counts any more, and the receipts of revocations under it. The user can sign \
            in again at any time, and is a new one then.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var progress: ProgressOptions
    @Argument(help: "Apple's `sub` of the user.") var user: String
    @Option(help: ArgumentHelp("Only in this app.", valueName: "name")) var app: String?
    @Flag(help: "Also a user who is signed in. A token is then lost without being revoked at Apple.") var evenIfAuthorized = false

    func run() async throws {
        let configuration = try options.readConfiguration()
        let (data, pseudonym) = try await configuration.withStore { store -> (PersonalData, String) in
            let data = try await progress.line(json: output.json).time("searching the logs") {
                try await store.personalData(of: user, in: app)
            }
            return (data, try configuration.sealer(of: store).pseudonym(of: user))
        }
        let request = OperatorRequest.forget(
            ErasureRequest(of: user, in: app, as: pseudonym, evenIfAuthorized: evenIfAuthorized, found: data)
        )
        let erasure: Erasure = try await request.carryOut(in: configuration) {
            if case .forgotten(let erasure) = $0 { erasure } else { nil }
        }
        try output.print(erasure, erasure.text)
    }
}

extension Erasure {
    fileprivate var text: String {
        let counts = erasedRows.sorted { $0.key < $1.key }.map { "  \($0.value) of \($0.key)" }
        let ends = forgottenUntil.sorted { $0.key < $1.key }.map {
            "  in \($0.key.printable), no fact up to \($0.value.text) counts any more"
        }
        let requests = keptReceipts.map(String.init).joined(separator: ", ")
        let receipts = keptReceipts.isEmpty ? [] : ["  the receipts of the requests to revoke \(requests)"]
        let unsent = unsentWebhooks.sorted { $0.key < $1.key }.map {
            "  to \($0.key.printable), up to \($0.value.counted("webhook", "webhooks"))"
        }
        let loss = unsent.isEmpty ? [] : ["What was still to be sent about the user, and is not:"] + unsent
        return (["At \(erasedAt.text) these rows were erased:"] + counts + loss + ["What stays, as \(pseudonym):"] + ends + receipts)
            .joined(separator: "\n")
    }
}
