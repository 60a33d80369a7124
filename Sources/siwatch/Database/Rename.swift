// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Rename: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Gives an app or a delivery another name, in the database.",
        discussion: """
            siwatch has to be stopped; for a delivery on a server, every siwatch that has one of the two names. Give the app or the delivery \
            the same name in the configuration: siwatch does not start until both agree on an app, and a delivery goes on with what it still \
            has to send. Backends that ask by the app's name have to follow.
            """
    )

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case app, delivery
    }

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "What has the name: app or delivery.") var kind: Kind
    @Argument(help: "The name in the database.") var old: String
    @Argument(help: "The name from now on.") var new: String

    func validate() throws {
        guard kind == .app else { return }
        guard ValueRule.isName(new) else { throw ValidationError("A name has 1 to 64 characters and no control characters.") }
        guard !FleetLane.isTaken(new) else { throw ValidationError("This name has another meaning in the metrics.") }
    }

    func run() async throws {
        let configuration = try options.readConfiguration()
        switch kind {
        case .app:
            try await configuration.withStoreAlone { try await $0.renameApp(old, to: new) }
            let isConfigured = configuration.apps.contains { $0.name == new }
            let todo = isConfigured ? "as the configuration has it" : "write name = \"\(new.printable)\" in \(configuration.source) too"
            try tell("\(old.printable) is \(new.printable) in the database now: \(todo).")
        case .delivery:
            _ = try configuration.delivery(named: new)
            guard !configuration.deliveries.contains(where: { $0.name == old }) else {
                throw CommandFailure.failed("\(old.printable) is in the configuration still")
            }
            let isKnown = try await configuration.alone(with: [old, new]) { try await $0.renameDelivery(old, to: new) }
            guard isKnown else { throw CommandFailure.failed("the database knows no delivery \"\(old.printable)\"") }
            try tell("\(new.printable) goes on where \(old.printable) was.")
        }
    }

    private func tell(_ text: String) throws { try output.print(["old": old, "new": new], text) }
}
