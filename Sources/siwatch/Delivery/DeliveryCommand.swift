// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation
import Webhooks

struct DeliveryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delivery",
        abstract: "Shows and mends the webhooks of each [[delivery]].",
        subcommands: [List.self, Test.self, Replay.self, Drop.self, Rename.self, MakeSecret.self]
    )
}

extension DeliveryCommand {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Shows how far each delivery is.")

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let configuration = try options.readConfiguration()
            let positions = try await configuration.deliveryPositions()
            let lines = positions.sorted { $0.key < $1.key }.map { name, position in
                let stopped = position.stoppedAt.map { ", stopped since \($0.text): it said that it is gone" } ?? ""
                let isConfigured = configuration.deliveries.contains { $0.name == name }
                return "\(name.printable): \(position.unsent)\(stopped)" + (isConfigured ? "" : ", not in the configuration")
            }
            let new = configuration.deliveries.map(\.name).filter { positions[$0] == nil }.sorted().map {
                "\($0.printable): begins with siwatch's next start"
            }
            let text = (lines + new).joined(separator: "\n")
            try output.print(positions, text.isEmpty ? "There is no [[delivery]]." : text)
        }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sends a signed event of the type siwatch.test, which tells of nobody.",
            discussion: "Exits with 1 if the receiver does not answer with 200 to 299."
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The name of the delivery.") var name: String

        func run() async throws {
            let configuration = try options.readConfiguration(opensDatabase: false)
            let delivery = try configuration.delivery(named: name)
            let source = ReceiverSource(delivery, try Keys(configuration).deliveries[name] ?? DeliveryKeys())
            let message = WebhookMessage(test: Invocation.current.clock.now, nonce: .random(in: .min ... .max))
            let answer: Receiver.Answer
            do {
                answer = try await source.receiver().send(message, at: Invocation.current.clock.now)
            } catch {
                await source.close()
                throw CommandFailure.failed("\(delivery.shownURL) was not asked: \(error)")
            }
            await source.close()
            switch answer {
            case .taken: try printOutput("\(delivery.shownURL) has taken \(message.id).")
            case .gone: throw CommandFailure.failed("\(delivery.shownURL) answers 410: it is gone")
            case .busy(_, let reason), .refused(let reason):
                let question = "is it the URL of the receiver, and does the receiver have this secret?"
                throw CommandFailure.failed("\(delivery.shownURL) did not take the event: \(reason): \(question)")
            case .silent(let reason): throw CommandFailure.failed("\(delivery.shownURL) did not answer: \(reason)")
            }
        }
    }

    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sends again what a receiver has not taken, at once, and lets a stopped delivery go on."
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The name of the delivery.") var name: String

        func run() async throws {
            let replayed = try await options.change(name) { store, name in
                try await store.stop(name, since: nil)
                return try await store.replay(name, at: Invocation.current.clock.now)
            }
            let waiting = replayed.counted("change that waits or is dead is", "changes that wait or are dead are")
            try printOutput("The delivery goes on, and \(waiting) sent again.")
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Forgets the dead changes of a delivery.",
            discussion: """
                Of a delivery that has left the configuration, forgets all that it still had to send. On a file, siwatch has to be stopped; on \
                a server, every siwatch that has the delivery.
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The name of the delivery.") var name: String

        func run() async throws {
            let configuration = try options.readConfiguration()
            if !configuration.deliveries.contains(where: { $0.name == name }),
                let position = try await configuration.deliveryPositions()[name]
            {
                try await configuration.alone(with: [name]) { try await $0.forgetDelivery(name) }
                return try printOutput("\(name.printable) is forgotten: \(position.unsent).")
            }
            let dropped = try await options.change(name) { store, name in try await store.dropDead(of: name) }
            try printOutput("\(dropped.counted("change is", "changes are")) forgotten.")
        }
    }

    struct Rename: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives a delivery another name, in the database.",
            discussion: """
                siwatch has to be stopped, on a server every siwatch that has one of the two. Give the delivery the same name in the configuration, so that it goes on with what it still has to \
                send.
                """
        )

        @OptionGroup var options: CommonOptions
        @Argument(help: "The name in the database.") var old: String
        @Argument(help: "The name in the configuration.") var new: String

        func run() async throws {
            let configuration = try options.readConfiguration()
            _ = try configuration.delivery(named: new)
            guard !configuration.deliveries.contains(where: { $0.name == old }) else {
                throw CommandFailure.failed("\(old.printable) is in the configuration still")
            }
            let isKnown = try await configuration.alone(with: [old, new]) { try await $0.renameDelivery(old, to: new) }
            guard isKnown else { throw CommandFailure.failed("the database knows no delivery \"\(old.printable)\"") }
            try printOutput("\(new.printable) goes on where \(old.printable) was.")
        }
    }

    struct MakeSecret: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "secret",
            abstract: "Makes a secret for a [[delivery]].",
            discussion: "32 random bytes, as Standard Webhooks writes them. With a file, it goes there, with mode 0600."
        )

        @Argument(help: "The new file.", completion: .file())
        var file: String?

        func run() throws {
            try NewSecret.webhookSecret.hand(out: file)
        }
    }
}

extension Configuration {
    /// By the name of the delivery.
    fileprivate func deliveryPositions() async throws -> [String: DeliveryPosition] {
        let names = Set(deliveries.map(\.name))
        return try await withStore(appends: true) { store in
            var positions: [String: DeliveryPosition] = [:]
            for name in names.union(try await store.deliveryNames()) { positions[name] = try await store.delivery(name) }
            return positions
        }
    }

    /// Works on deliveries that no siwatch is sending.
    fileprivate func alone<Value>(
        with deliveries: [String],
        _ body: (any CredentialStore) async throws -> Value
    ) async throws -> Value {
        try await withStoreAlone { store in
            for name in deliveries {
                guard let replica = try await store.fleet?.replicas(for: .delivery(name)).first else { continue }
                throw CommandFailure.unavailable(
                    """
                    the siwatch \(replica.processID) on \(replica.host.printable) has the delivery \(name.printable): stop it, or start it \
                    again without the delivery
                    """
                )
            }
            return try await body(store)
        }
    }

    fileprivate func delivery(named name: String) throws(CommandFailure) -> Delivery {
        if let delivery = deliveries.first(where: { $0.name == name }) { return delivery }
        let names = deliveries.map(\.name.printable).joined(separator: ", ")
        throw .failed(deliveries.isEmpty ? "there is no [[delivery]]" : "there is no delivery \"\(name.printable)\"; there is \(names)")
    }
}

extension CommonOptions {
    fileprivate func change(
        _ name: String,
        _ body: (any CredentialStore, String) async throws -> Int
    ) async throws -> Int {
        let configuration = try readConfiguration()
        _ = try configuration.delivery(named: name)
        return try await configuration.withStore(appends: true) { store in
            guard try await store.delivery(name) != nil else {
                throw CommandFailure.failed("the database does not know \(name.printable) yet: it begins when siwatch starts")
            }
            return try await body(store, name)
        }
    }
}
