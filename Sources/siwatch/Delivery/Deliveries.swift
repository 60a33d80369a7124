// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import NIOConcurrencyHelpers
import ServiceLifecycle
import Webhooks

/// Pushes news to the backends that the configuration names. Of several siwatch on a server, one that names the delivery does.
struct Deliveries: Service {
    private let loops: [Loop]
    private let context: DaemonContext
    private let reloads = NIOLockedValueBox(0)

    private struct Loop {
        var name: String
        var source: ReceiverSource
        var delivery: Delivery
    }

    /// How soon a change is sent. A look costs one query.
    private static let interval = Duration.milliseconds(200)
    /// After a failure of the database, which says nothing of the receiver.
    private static let respite = Duration.seconds(5)
    /// How old the figures of a delivery get while its receiver is left alone.
    private static let oldest = Duration.seconds(15)

    init(_ keys: Keys, _ context: DaemonContext) async throws {
        // Before anything is settled, so that a delivery that is new misses no change of this process.
        for configured in context.configuration.deliveries { try await context.store.beginDelivery(configured.name) }
        self.context = context
        loops = context.configuration.deliveries.map { configured in
            let source = ReceiverSource(configured, keys.deliveries[configured.name] ?? DeliveryKeys())
            let telemetry = context.telemetry
            telemetry.createSeries(delivery: configured.name)
            let delivery = Delivery(
                configured.name,
                context.store,
                apps: configured.apps.isEmpty ? nil : Set(configured.apps),
                types: configured.webhookTypes,
                withAddress: configured.email,
                clock: context.clock,
                receiver: source.receiver
            ) { telemetry.delivered(configured.name, $0) }
            return Loop(name: configured.name, source: source, delivery: delivery)
        }
    }

    func use(_ keys: Keys) {
        // A delivery that left the configuration goes on with its old keys until the restart.
        for loop in loops { if let own = keys.deliveries[loop.name] { loop.source.use(own) } }
        reloads.withLockedValue { $0 += 1 }
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup { group in
                for loop in loops { group.addTask { await run(loop) } }
            }
        }
        for loop in loops { await loop.source.close() }
        try? await gracefulShutdown()
    }

    private func run(_ loop: Loop) async {
        while !Task.isCancelled {
            var pause = Self.interval
            let reload = reloads.withLockedValue(\.self)
            if !context.membership.delivers(loop.name) {
                context.telemetry.deliveryLeft(loop.name)
            } else {
                switch try? await loop.delivery.round() {
                case nil: pause = Self.respite
                case .some(.none): pause = .zero
                case .idle?: break
                case .pause(let time, let reason, let isThere)?:
                    pause = time
                    // A stop ends the requests, and says nothing of the receiver. One that takes some at its own pace is no trouble.
                    if isThere || Task.isCancelled { break }
                    await loop.source.lookAgain()
                    context.telemetry.deliveryFailed(loop.name, reason, at: context.clock.now)
                }
            }
            if pause > .zero { await rest(loop, for: pause, unlessAfter: reload) }
        }
    }

    /// Lets a receiver alone, which may ask for a day. A reload ends that, because it may have brought what the receiver wants.
    ///
    /// - Parameter reload: the number of the last reload before the round. One in the middle of it came too late for its messages.
    private func rest(_ loop: Loop, for pause: Duration, unlessAfter reload: Int) async {
        let end = ContinuousClock.now + pause
        var nextLook = ContinuousClock.now + Self.oldest
        while !Task.isCancelled, reloads.withLockedValue(\.self) == reload, case let left = end - .now, left > .zero {
            try? await Task.sleep(for: min(left, .seconds(1)))
            guard context.membership.delivers(loop.name) else { return }
            if nextLook <= .now {
                try? await loop.delivery.look()
                nextLook = .now + Self.oldest
            }
        }
    }
}

extension Daemon {
    /// Looks every hour whether the database has a delivery that nobody sends.
    var deliveryWatch: Recurring {
        Recurring(every: .hours(1), onFailure: context.telemetry.maintenanceFailed) { [context] in
            for (name, position) in try await context.store.abandonedDeliveries(of: context.configuration) {
                let reason = "\(position.unsent); \(DeliveryPosition.abandonedAdvice(name))"
                context.telemetry.log(.deliveryUnconfigured, ["delivery": "\(name)", "reason": "\(reason)"])
            }
        }
    }
}

extension DeliveryPosition {
    /// What it still has to send.
    var unsent: String { "\(Int(behind).counted("change")) behind, \(waiting) wait for another try, \(dead) are dead" }

    /// What to do about a delivery that the configuration no longer has.
    static func abandonedAdvice(_ name: String) -> String {
        let name = name.shellQuoted.printable
        return "siwatch rename delivery \(name) NEW if it has another name now, else siwatch delivery drop \(name); stop siwatch before"
    }
}

extension CredentialStore {
    func deliveryPositions() async throws -> [String: DeliveryPosition] {
        var positions: [String: DeliveryPosition] = [:]
        for name in try await deliveryNames() { positions[name] = try await delivery(name) }
        return positions
    }

    /// Those deliveries that neither the configuration has nor another siwatch at work.
    func abandonedDeliveries(of configuration: Configuration) async throws -> [String: DeliveryPosition] {
        var positions = try await deliveryPositions()
        for name in positions.keys {
            let isSent = try await fleet?.replicas(for: .delivery(name)).isEmpty == false
            if isSent || configuration.deliveries.contains(where: { $0.name == name }) { positions[name] = nil }
        }
        return positions
    }
}
