// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

/// The values that replicas compare, in this release and in others.
struct FleetAgreementTests {
    private static var configuration: Configuration {
        var configuration = ConfigurationTests.least
        configuration.apps[0].canaries = ["user.2", "user.1"]
        return configuration
    }

    /// After a change here, replicas of two releases refuse to run beside each other.
    @Test func itsTextIsTheSameInEveryRelease() {
        let agreement = FleetAgreement(Self.configuration)
        #expect(
            agreement.text == """
                app = example
                app.client = com.example.app
                app.client = com.example.web
                app.canary = user.1
                app.canary = user.2
                breaker.window = 500
                breaker.max_rejections = 20
                breaker.max_rejected_percent = 5
                breaker.settle = 900000 ms
                revocations.max_per_hour = 50
                revocations.max_percent_per_hour = 1
                refresh.interval = 86400000 ms
                refresh.timeout = 15000 ms
                queues.clock_skew = 300000 ms
                apple.issuer = https://appleid.apple.com

                """
        )
        #expect(agreement.digest == "524483803a8f2a27")
    }

    /// The compared values of the configuration, each with a change that the comparison must notice.
    private static let compared: [String: @Sendable (inout Configuration) -> Void] = [
        "app.name": { $0.apps[0].name = "other" }, "app.clientIDs": { $0.apps[0].clientIDs.removeLast() },
        "app.canaries": { $0.apps[0].canaries.removeLast() }, "app.revocations": { $0.apps[0].revocations = false },
        "refresh.interval": { $0.refresh.interval = .hours(12) }, "refresh.timeout": { $0.refresh.timeout = .seconds(14) },
        "breaker.window": { $0.breaker.window = 501 }, "breaker.maxRejections": { $0.breaker.maxRejections = 21 },
        "breaker.maxRejectedPercent": { $0.breaker.maxRejectedPercent = 6 }, "breaker.settle": { $0.breaker.settle = .minutes(14) },
        "revocations.maxPerHour": { $0.revocations.maxPerHour = 51 },
        "revocations.maxPercentPerHour": { $0.revocations.maxPercentPerHour = 2 },
        "queues.clockSkew": { $0.queues.clockSkew = .minutes(4) }, "apple.issuers": { $0.apple.issuers.append("https://example.com") },
    ]

    /// The values that may differ between replicas. The housekeeping replica's retention counts.
    private static let mayDiffer: Set = [
        "source", "database", "encryption", "retention", "operations", "http", "deliveries", "log", "app.teamID", "app.keys",
        "refresh.maxRequestsPerSecond", "refresh.maxConcurrentRequests", "queues.pollInterval", "apple.tokenEndpoint",
        "apple.revocationEndpoint", "apple.keysEndpoint",
    ]

    /// A new value of the configuration must go into one of the two lists above.
    @Test func everyValueOfTheConfigurationIsComparedOrMayDiffer() throws {
        let configuration = Self.configuration
        let parts: [String: Any] = [
            "app": try #require(configuration.apps.first), "refresh": configuration.refresh, "breaker": configuration.breaker,
            "revocations": configuration.revocations, "queues": configuration.queues, "apple": configuration.apple,
        ]
        let whole = Mirror(reflecting: configuration).children.compactMap(\.label).filter { $0 != "apps" && parts[$0] == nil }
        let values = parts.flatMap { part, value in Mirror(reflecting: value).children.compactMap { $0.label.map { "\(part).\($0)" } } }
        #expect(Set(whole + values) == Set(Self.compared.keys).union(Self.mayDiffer))
        #expect(Self.mayDiffer.isDisjoint(with: Self.compared.keys))
    }

    @Test(arguments: compared.keys.sorted()) func aChangeOfARuleIsSeen(_ name: String) throws {
        var configuration = Self.configuration
        let change = try #require(Self.compared[name])
        change(&configuration)
        let agreement = FleetAgreement(configuration)
        #expect(agreement.text != FleetAgreement(Self.configuration).text)
        #expect(agreement.digest != FleetAgreement(Self.configuration).digest)
    }

    @Test func anotherOrderIsTheSame() {
        var other = Self.configuration
        other.apps[0].clientIDs.reverse()
        other.apps[0].canaries.reverse()
        #expect(FleetAgreement(other).text == FleetAgreement(Self.configuration).text)
    }
}
