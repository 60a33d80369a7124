// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import NIOConcurrencyHelpers

package struct DeliveryState: Sendable, Equatable, Encodable {
    package var name: String
    package var position: DeliveryPosition?
    /// Nil while its receiver takes webhooks.
    package var outage: Outage?

    package struct Outage: Sendable, Equatable, Encodable {
        package var since: Timestamp
        package var reason: String
    }
}

extension Telemetry {
    package var deliveries: [DeliveryState] { deliveryStates.withLockedValue { $0.values.sorted { $0.name < $1.name } } }

    package func createSeries(delivery name: String) { create(.deliveries, [name], DeliveryNews.Outcome.words) }

    package func delivered(_ name: String, _ news: DeliveryNews) {
        switch news {
        case .sent(let outcome, let number):
            count(.deliveries, ["delivery": name, "outcome": outcome.rawValue], by: number)
            if outcome == .dead { log(.deliveryDead, ["delivery": "\(name)", "count": "\(number)"]) }
            if outcome == .taken { note(nil, of: name) }
        case .stopped: log(.deliveryStopped, ["delivery": "\(name)"])
        case .skipped(let from, let to):
            log(.deliverySkipped, ["delivery": "\(name)", "reason": "it goes on after change \(to), and was at \(from)"])
        case .begunAnew:
            let reason = "the database does not know it any more, so it begins with the next change"
            log(.deliverySkipped, ["delivery": "\(name)", "reason": "\(reason)"])
        case .forgotten(let count):
            let reason = "\(count) that its receiver did not take are past retention.changes, or of users that siwatch has forgotten"
            log(.deliverySkipped, ["delivery": "\(name)", "reason": "\(reason)"])
        case .position(let position):
            deliveryStates.withLockedValue { $0[name, default: DeliveryState(name: name)].position = position }
            gauge(.deliveryBehind, Double(position.behind), ["delivery": name])
            gauge(.deliveryWaiting, Double(position.waiting), ["delivery": name])
            gauge(.deliveryOldest, Double(position.oldestWaiting?.milliseconds ?? 0) / 1000, ["delivery": name])
            gauge(.deliveryDead, Double(position.dead), ["delivery": name])
        }
    }

    package func deliveryFailed(_ name: String, _ reason: String, at now: Timestamp) {
        let since = deliveryStates.withLockedValue { $0[name]?.outage?.since }
        note(DeliveryState.Outage(since: since ?? now, reason: reason), of: name)
    }

    /// An outage is one line of the log, and not one for each try.
    private func note(_ outage: DeliveryState.Outage?, of name: String) {
        deliveryStates.withLockedValue { states in
            if outage != nil || states[name] != nil { states[name, default: DeliveryState(name: name)].outage = outage }
        }
        let details: Logger.Metadata = outage.map { ["reason": "\($0.reason)"] } ?? [:]
        episode(.deliveryFailed, until: .deliveryRecovered, of: ["delivery": name], outage.map { _ in "" }, details)
    }

    package func deliveryLeft(_ name: String) {
        guard deliveryStates.withLockedValue({ $0.removeValue(forKey: name) }) != nil else { return }
        episodes.forget(.deliveryFailed, of: ["delivery": name])
        instruments.forgetGauges(of: [.deliveryBehind, .deliveryWaiting, .deliveryOldest, .deliveryDead], with: ["delivery": name])
    }
}
