// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import CredentialMonitor

/// Parts of the configuration in the types of other modules.
extension Configuration {
    var refreshPolicy: RefreshPolicy { RefreshPolicy(interval: refresh.interval, timeout: refresh.timeout) }

    var notificationPolicy: NotificationPolicy {
        NotificationPolicy(issuers: Set(apple.issuers), clientIDs: clientIDs, clockSkew: queues.clockSkew)
    }

    func settlementRules(startedAt time: Timestamp, _ pseudonymizer: any UserPseudonymizer) -> SettlementRules {
        SettlementRules(
            policy: refreshPolicy,
            pollInterval: queues.pollInterval,
            startedAt: time,
            breaker: BreakerRules(
                window: breaker.window,
                maxRejections: breaker.maxRejections,
                maxRejectedPercent: breaker.maxRejectedPercent,
                settle: breaker.settle,
                policy: refreshPolicy
            ),
            revocationLimit: revocations,
            canaries: Dictionary(uniqueKeysWithValues: apps.map { ($0.name, Set($0.canaries)) }),
            pseudonymizer: pseudonymizer
        )
    }

    var clientIDs: Set<String> { Set(apps.flatMap(\.clientIDs)) }

    var clientsOfApps: [AppClients] { apps.map { AppClients(name: $0.name, clientIDs: $0.clientIDs) } }
}

extension Configuration.Refresh {
    var limits: RequestLimits {
        RequestLimits(maxRequestsPerSecond: Double(maxRequestsPerSecond), maxConcurrentRequests: maxConcurrentRequests)
    }

    /// - Parameter clients: of the whole configuration.
    func recheckRules(of clients: Set<String>) -> RecheckRules {
        RecheckRules(refreshInterval: interval, requestsPerSecond: maxRequestsPerSecond, clients: clients)
    }
}
