// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

struct ConfigurationValueTests {
    @Test(
        arguments: [
            ("24h", .seconds(86_400)),
            ("20ms", .milliseconds(20)),
            ("90d", .seconds(7_776_000)),
            ("1h30m", .seconds(5400)),
            ("1d2h3m4s5ms", .milliseconds(93_784_005)),
            ("0h1s", .seconds(1)),
            ("007s", .seconds(7)),
            ("5m", .seconds(300)),
            ("100000d", .seconds(8_640_000_000)),
        ] as [(String, Duration)]
    )
    func aDurationIsRead(text: String, duration: Duration) {
        #expect(Duration(configured: text) == duration)
    }

    @Test(arguments: [
        "", "0", "0s", "0d0ms", "24", "h", "1 h", " 1h", "1h ", "+1h", "-1h", "1.5h", "1,5h", "1H", "1w", "1y", "1µs", "1us", "1min",
        "30m1h", "1h1h", "1ms1s", "1h-30m", "1h30", "١h", "1_000s", "1e3s", "100001d", "100000d1ms", "9223372036854775807d",
        "9223372036854775808d", "99999999999999999999999ms", "infinity", "1h\0",
    ])
    func anyOtherDurationIsRefused(text: String) {
        #expect(Duration(configured: text) == nil)
    }

    @Test func aUserWhoHasEndedMayStayForEver() throws {
        func endedUser(_ text: String) throws -> Duration? {
            try Configuration(parsing: "[retention]\nended_user = \"\(text)\"\n" + ConfigurationTests.app, from: "siwatch.toml").retention
                .endedUser
        }
        #expect(try endedUser("never") == nil)
        #expect(try endedUser("400d") == .seconds(400 * 86_400))
        #expect(throws: InvalidConfiguration.self) { try endedUser("Never") }
    }

    /// `ConfigurationMistakeTests` has the message for a longer one.
    @Test func thePollIntervalIsAMinuteAtMost() throws {
        let table = "[queues]\npoll_interval = \"1m\"\n" + ConfigurationTests.app
        #expect(try Configuration(parsing: table, from: "siwatch.toml").queues.pollInterval == .seconds(60))
    }

    @Test(arguments: [
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        ("localhost:0", "localhost", 0),
        ("0.0.0.0:65535", "0.0.0.0", 65_535),
        ("[::]:80", "::", 80),
        ("metrics-1.example.com:80", "metrics-1.example.com", 80),
    ])
    func aListenAddressIsRead(text: String, host: String, port: Int) {
        let address = ListenAddress(text)
        #expect(address == ListenAddress(host: host, port: port))
        #expect(address?.description == text)
    }

    @Test(arguments: [
        "", ":", "9464", ":9464", "localhost", "localhost:", "localhost:+80", "localhost:65536", "localhost:-1", "localhost:http",
        "::1:9464", "[]:80", "[localhost]:80", "[::1]", "[::1]80", "http://localhost:80", "local host:80", "a/b:80",
    ])
    func anyOtherAddressIsRefused(text: String) {
        #expect(ListenAddress(text) == nil)
    }

    @Test(arguments: ["localhost", "127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1"]) func loopbackIsKnown(host: String) {
        #expect(Host.isLoopback(host))
    }

    @Test(arguments: [
        "", "128.0.0.1", "127.0.0.1.example.com", "localhost.example.com", "127.1", "::2", "::", "::ffff:10.0.0.1", "example.com",
    ])
    func noOtherHostIsLoopback(host: String) {
        #expect(!Host.isLoopback(host))
    }

    @Test(arguments: [
        "https://appleid.apple.com/auth/token", "https://example.com:8443/token", "http://127.0.0.1:8080/", "http://localhost/auth",
        "http://[::1]:80/auth", "https://example.com",
    ])
    func anEndpointIsAccepted(text: String) throws {
        let table = "[apple]\ntoken_endpoint = \"\(text)\"\n" + ConfigurationTests.app
        #expect(try Configuration(parsing: table, from: "siwatch.toml").apple.tokenEndpoint.absoluteString == text)
    }

    @Test(arguments: [
        "http://appleid.apple.com/", "http://127.0.0.1.example.com/", "http://localhost.example.com/", "http://127.0.0.1@example.com/",
        "https://user:password@example.com/", "https://example.com/?a=b", "https://example.com/#a", "https:///token", "https:",
        "//example.com", "example.com", "file:///etc/passwd", "https://exa mple.com/",
    ])
    func anyOtherEndpointIsRefused(text: String) {
        let table = "[apple]\ntoken_endpoint = \"\(text)\"\n" + ConfigurationTests.app
        #expect(throws: InvalidConfiguration.self) { try Configuration(parsing: table, from: "siwatch.toml") }
    }
}
