// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Webhooks

/// The rules that all replicas of a database must share, because otherwise they would judge the same rows differently.
///
/// Replicas of two releases compare these rules during an upgrade. So a rule keeps its name and its form, even if the code renames it. A
/// rule that a release adds is left out while it has the value that the release before goes by.
struct FleetAgreement {
    let text: String

    init(_ configuration: Configuration) {
        func lines(_ name: String, _ values: [String]) -> [String] { values.sorted().map { "\(name) = \($0)" } }
        func milliseconds(_ name: String, _ duration: Duration) -> String { "\(name) = \(duration.milliseconds) ms" }
        let apps = configuration.apps.sorted { $0.name < $1.name }.flatMap { app in
            ["app = \(app.name)"] + lines("app.client", app.clientIDs) + lines("app.canary", app.canaries)
                + (app.revocations ? [] : ["app.revocations = false"])
        }
        let rules = [
            "breaker.window = \(configuration.breaker.window)",
            "breaker.max_rejections = \(configuration.breaker.maxRejections)",
            "breaker.max_rejected_percent = \(configuration.breaker.maxRejectedPercent)",
            milliseconds("breaker.settle", configuration.breaker.settle),
            "revocations.max_per_hour = \(configuration.revocations.maxPerHour)",
            "revocations.max_percent_per_hour = \(configuration.revocations.maxPercentPerHour)",
            milliseconds("refresh.interval", configuration.refresh.interval),
            milliseconds("refresh.timeout", configuration.refresh.timeout),
            milliseconds("queues.clock_skew", configuration.queues.clockSkew),
        ]
        text = (apps + rules + lines("apple.issuer", configuration.apple.issuers)).map { $0 + "\n" }.joined()
    }

    var digest: String { String(text.utf8.fnv1a(), radix: 16) }
}

extension Configuration {
    /// By the name of a delivery, what differs if it leaves out other changes. No URL, which may hold a token.
    var deliveryDigests: [String: String] {
        deliveries.reduce(into: [:]) { digests, delivery in
            let apps = delivery.apps.isEmpty ? self.apps.map(\.name) : delivery.apps
            let lines = apps.sorted().map { "app = \($0)" } + delivery.webhookTypes.map { "type = \($0.rawValue)" }.sorted()
            digests[delivery.name] = String(lines.joined(separator: "\n").utf8.fnv1a(), radix: 16)
        }
    }
}
