// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

struct ConfigurationValueTests {
    @Test(
        arguments: [
            ("24h", .seconds(86_400)), ("20ms", .milliseconds(20)), ("90d", .seconds(7_776_000)), ("1h30m", .seconds(5400)),
            ("1d2h3m4s5ms", .milliseconds(93_784_005)), ("0h1s", .seconds(1)), ("007s", .seconds(7)), ("5m", .seconds(300)),
            ("100000d", .seconds(8_640_000_000)),
        ] as [(String, Duration?)]
            + [
                "", "0", "0s", "0d0ms", "24", "h", "1 h", " 1h", "1h ", "+1h", "-1h", "1.5h", "1,5h", "1H", "1w", "1y", "1µs", "1us",
                "1min", "30m1h", "1h1h", "1ms1s", "1h-30m", "1h30", "١h", "1_000s", "1e3s", "100001d", "100000d1ms",
                "9223372036854775807d", "9223372036854775808d", "99999999999999999999999ms", "infinity", "1h\0",
            ].map { ($0, Duration?.none) }
    )
    func aDurationIsReadAndAnyOtherTextRefused(text: String, duration: Duration?) {
        #expect(Duration(configured: text) == duration)
    }

    @Test func aUserWhoHasEndedMayStayForEver() throws {
        func endedUser(_ text: String) throws -> Duration? {
            try ConfigurationTests.reading("[retention]\nended_user = \"\(text)\"").retention.endedUser
        }
        #expect(try endedUser("never") == nil)
        #expect(try endedUser("400d") == .seconds(400 * 86_400))
        #expect(throws: InvalidConfiguration.self) { try endedUser("Never") }
    }

    /// `ConfigurationMistakeTests` has the message for a longer one.
    @Test func thePollIntervalIsAMinuteAtMostAndAnEmptyAddressIsNone() throws {
        #expect(try ConfigurationTests.reading("[queues]\npoll_interval = \"1m\"").queues.pollInterval == .seconds(60))
        #expect(try ConfigurationTests.reading("[operations]\nlisten = \"\"").operations.listen == nil)
    }

    @Test(
        arguments: [
            ("127.0.0.1:9464", ListenAddress(host: "127.0.0.1", port: 9464)), ("localhost:0", ListenAddress(host: "localhost", port: 0)),
            ("0.0.0.0:65535", ListenAddress(host: "0.0.0.0", port: 65_535)), ("[::]:80", ListenAddress(host: "::", port: 80)),
            ("metrics-1.example.com:80", ListenAddress(host: "metrics-1.example.com", port: 80)),
        ] as [(String, ListenAddress?)]
            + [
                "", ":", "9464", ":9464", "localhost", "localhost:", "localhost:+80", "localhost:65536", "localhost:-1", "localhost:http",
                "::1:9464", "[]:80", "[localhost]:80", "[::1]", "[::1]80", "http://localhost:80", "local host:80", "a/b:80",
            ].map { ($0, ListenAddress?.none) }
    )
    func aListenAddressIsReadAndAnyOtherTextRefused(text: String, address: ListenAddress?) {
        #expect(ListenAddress(text) == address && (address == nil || address?.description == text))
    }

    @Test func loopbackIsKnown() {
        let others = [
            "", "128.0.0.1", "127.0.0.1.example.com", "localhost.example.com", "127.1", "::2", "::", "::ffff:10.0.0.1", "example.com",
        ]
        let hosts = ["localhost", "127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1"]
        #expect((others + hosts).filter(Host.isLoopback) == hosts)
    }

    @Test(arguments: [
        "https://appleid.apple.com/auth/token", "https://example.com:8443/token", "http://127.0.0.1:8080/", "http://localhost/auth",
        "http://[::1]:80/auth", "https://example.com",
    ])
    func anEndpointIsAccepted(text: String) throws {
        #expect(try ConfigurationTests.reading("[apple]\ntoken_endpoint = \"\(text)\"").apple.tokenEndpoint.absoluteString == text)
    }

    @Test(arguments: [
        "http://appleid.apple.com/", "http://127.0.0.1.example.com/", "http://localhost.example.com/", "http://127.0.0.1@example.com/",
        "https://user:password@example.com/", "https://example.com/?a=b", "https://example.com/#a", "https:///token", "https:",
        "//example.com", "example.com", "file:///etc/passwd", "https://exa mple.com/",
    ])
    func anyOtherEndpointIsRefused(text: String) {
        #expect(throws: InvalidConfiguration.self) { try ConfigurationTests.reading("[apple]\ntoken_endpoint = \"\(text)\"") }
    }
}
