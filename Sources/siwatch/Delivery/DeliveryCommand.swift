// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation
import Webhooks

struct DeliveryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delivery",
        abstract: "Tests and mends the webhooks of a [[delivery]].",
        subcommands: [Test.self, Replay.self, Drop.self]
    )
}

extension DeliveryCommand {
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
                let position = try await configuration.withStore(appends: true, { try await $0.delivery(name) })
            {
                try await configuration.alone(with: [name]) { try await $0.forgetDelivery(name) }
                return try printOutput("\(name.printable) is forgotten: \(position.unsent).")
            }
            let dropped = try await options.change(name) { store, name in try await store.dropDead(of: name) }
            try printOutput("\(dropped.counted("change is", "changes are")) forgotten.")
        }
    }
}

extension Configuration {
    /// Works on deliveries that no siwatch is sending.
    func alone<Value>(with deliveries: [String], _ body: (any CredentialStore) async throws -> Value) async throws -> Value {
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

    func delivery(named name: String) throws(CommandFailure) -> Delivery {
        if let delivery = deliveries.first(where: { $0.name == name }) { return delivery }
        let names = deliveries.map(\.name.printable).joined(separator: ", ")
        throw .failed(deliveries.isEmpty ? "there is no [[delivery]]" : "there is no delivery \"\(name.printable)\"; there is \(names)")
    }
}

extension CommonOptions {
    fileprivate func change(_ name: String, _ body: (any CredentialStore, String) async throws -> Int) async throws -> Int {
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
