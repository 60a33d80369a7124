// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import NIOConcurrencyHelpers

/// How the deliveries of this process are. An outage is one line of the log, and not one for each try.
final class DeliveryStates: Sendable {
    private let states = NIOLockedValueBox<[String: DeliveryState]>([:])

    /// By name.
    var all: [DeliveryState] { states.withLockedValue { states in states.values.sorted { $0.name < $1.name } } }

    func note(_ position: DeliveryPosition, of name: String) {
        states.withLockedValue { $0[name, default: DeliveryState(name: name)].position = position }
    }

    /// - Returns: whether it is news.
    func begin(_ name: String, _ reason: String, at now: Timestamp) -> Bool {
        states.withLockedValue { states in
            let since = states[name]?.outage?.since
            states[name, default: DeliveryState(name: name)].outage = DeliveryState.Outage(since: since ?? now, reason: reason)
            return since == nil
        }
    }

    func end(_ name: String) -> Bool {
        states.withLockedValue { states in
            defer { states[name]?.outage = nil }
            return states[name]?.outage != nil
        }
    }

    /// Forgets a delivery that another replica keeps.
    ///
    /// - Returns: whether there was one.
    func forget(_ name: String) -> Bool { states.withLockedValue { $0.removeValue(forKey: name) != nil } }
}

/// How one delivery of webhooks is.
package struct DeliveryState: Sendable, Equatable, Encodable {
    package var name: String
    /// Nil until the first look.
    package var position: DeliveryPosition?
    /// Nil while its receiver takes webhooks.
    package var outage: Outage?

    package struct Outage: Sendable, Equatable, Encodable {
        package var since: Timestamp
        /// Of the last failure, in a few words.
        package var reason: String
    }
}

extension Telemetry {
    /// The deliveries that this process keeps.
    package var deliveries: [DeliveryState] { deliveryStates.all }

    package func createSeries(delivery name: String) {
        for outcome in DeliveryNews.Outcome.allCases {
            _ = instruments.counter(.deliveries, ["delivery": name, "outcome": outcome.rawValue])
        }
    }

    package func delivered(_ name: String, _ news: DeliveryNews) {
        switch news {
        case .sent(let outcome, let number):
            count(Metric.deliveries, ["delivery": name, "outcome": outcome.rawValue], by: number)
            if outcome == .dead { logger.log(.deliveryDead, ["delivery": "\(name)", "count": "\(number)"]) }
            if outcome == .taken, deliveryStates.end(name) { logger.log(.deliveryRecovered, ["delivery": "\(name)"]) }
        case .stopped: logger.log(.deliveryStopped, ["delivery": "\(name)"])
        case .skipped(let from, let to):
            logger.log(.deliverySkipped, ["delivery": "\(name)", "reason": "it goes on after change \(to), and was at \(from)"])
        case .begunAnew:
            let reason = "the database does not know it any more, so it begins with the next change"
            logger.log(.deliverySkipped, ["delivery": "\(name)", "reason": "\(reason)"])
        case .forgotten(let count):
            let reason = "\(count) that its receiver did not take are past retention.changes, or of users that siwatch has forgotten"
            logger.log(.deliverySkipped, ["delivery": "\(name)", "reason": "\(reason)"])
        case .position(let position):
            deliveryStates.note(position, of: name)
            gauge(Metric.deliveryBehind, Double(position.behind), ["delivery": name])
            gauge(Metric.deliveryWaiting, Double(position.waiting), ["delivery": name])
            gauge(Metric.deliveryOldest, Double(position.oldestWaiting?.milliseconds ?? 0) / 1000, ["delivery": name])
            gauge(Metric.deliveryDead, Double(position.dead), ["delivery": name])
        }
    }

    package func deliveryUnconfigured(_ name: String, _ reason: String) {
        logger.log(.deliveryUnconfigured, ["delivery": "\(name)", "reason": "\(reason)"])
    }

    package func deliveryFailed(_ name: String, _ reason: String, at now: Timestamp) {
        guard deliveryStates.begin(name, reason, at: now) else { return }
        logger.log(.deliveryFailed, ["delivery": "\(name)", "reason": "\(reason)"])
    }

    /// Forgets a delivery that another replica keeps.
    package func deliveryLeft(_ name: String) {
        guard deliveryStates.forget(name) else { return }
        instruments.forgetGauges(of: [.deliveryBehind, .deliveryWaiting, .deliveryOldest, .deliveryDead], with: ["delivery": name])
    }
}
