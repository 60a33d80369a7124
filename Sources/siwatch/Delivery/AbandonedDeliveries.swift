// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging

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
    /// How far each delivery is that the database knows, by name.
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
