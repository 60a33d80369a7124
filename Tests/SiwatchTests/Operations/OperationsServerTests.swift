// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BoundedHTTP
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle
import Synchronization
import Testing

@testable import siwatch

struct OperationsServerTests {
    /// A server on a free port. It stops gracefully after the body.
    private func withServer(
        metrics: String = "",
        health: String? = nil,
        readiness: @escaping @Sendable () -> String? = { nil },
        _ body: (_ base: String) async throws -> Void
    ) async throws {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let pages = ServedPages(
            metrics: { _ in metrics },
            health: { health },
            readiness: { member in member == .door ? nil : readiness() },
            status: { throw CommandFailure.unusable(["no status"]) }
        )
        let server = Self.server(0, pages) { listening.yield($0) }
        let group = ServiceGroup(services: [server], logger: Self.logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { listening.finish() }
                try await group.run()
            }
            if let port = await ports.first(where: { _ in true }) { try await body("http://127.0.0.1:\(port)") }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// With time enough for any busy machine.
    private static func server(_ port: Int, _ pages: ServedPages, onListening: @escaping @Sendable (Int) -> Void) -> OperationsServer {
        OperationsServer(
            address: ListenAddress(host: "127.0.0.1", port: port),
            limits: ConnectionLimits(request: .seconds(300), answer: .seconds(300)),
            logger: logger,
            pages: pages,
            onListening: onListening
        )
    }

    private func fetch(_ url: String, method: String = "GET", host: String? = nil) async throws -> Answer {
        var request = HTTPClientRequest(url: url)
        if let host { request.headers.add(name: "host", value: host) }
        request.method = .init(rawValue: method)
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
        return Answer(status: Int(response.status.code), headers: response.headers, text: text)
    }

    private struct Answer {
        var status: Int
        var headers: HTTPHeaders
        var text: String
        var words: String { "\(status) \(text)" }

        subscript(header: String) -> String? { headers.first(name: header) }
    }

    @Test func metricsAreServed() async throws {
        let text = "# TYPE siwatch_up gauge\nsiwatch_up{app=\"é\u{fffd}[31m\"} 1\n"
        try await withServer(metrics: text.replacing("\u{fffd}", with: "\u{1b}")) { base in
            let answer = try await fetch("\(base)/metrics?name=x")
            #expect(answer.words == "200 \(text)" && answer["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
        }
    }

    /// A web page can have its own name point to 127.0.0.1, and its script then asks here by that name.
    @Test(
        arguments: [
            ("127.0.0.1:9464", 200), ("localhost", 200), ("[::1]:9464", 200), ("evil.example", 421), ("evil.example:9464", 421),
            ("localhost.evil.example", 421), ("127.0.0.1.evil.example:80", 421),
        ]
    )
    func onLoopbackOnlyItsOwnNamesAreServed(host: String, status: Int) async throws {
        try await withServer(metrics: "") { base in
            let answer = try await fetch("\(base)/metrics", host: host)
            #expect(answer.status == status)
        }
    }

    @Test func probesAreAnswered() async throws {
        let ready = Atomic(true)
        try await withServer(
            health: "the refresh loop has not turned for 12 s",
            readiness: { ready.load(ordering: .relaxed) ? nil : "stopping" }
        ) { base in
            let health = try await fetch("\(base)/healthz")
            #expect(health.words == "503 the refresh loop has not turned for 12 s\n")
            #expect(health["content-type"] == "text/plain; charset=utf-8")
            #expect(try await fetch("\(base)/readyz").words == "200 ok\n")
            ready.store(false, ordering: .relaxed)
            #expect(try await fetch("\(base)/readyz").words == "503 stopping\n")
            // Who relies on one of the two need not hear of the other.
            #expect(try await fetch("\(base)/readyz/door").status == 200)
            #expect(try await fetch("\(base)/readyz/tables").text == "stopping\n")
            #expect(try await fetch("\(base)/readyz/rows").status == 404)
            // As HAProxy asks by default.
            #expect(try await fetch("\(base)/readyz", method: "OPTIONS").text == "stopping\n")
            #expect(try await fetch("\(base)/", method: "OPTIONS").text == "only GET and HEAD; a probe asks /readyz\n")
        }
    }

    @Test func headIsAnsweredWithoutABody() async throws {
        try await withServer(metrics: "12345", readiness: { "starting" }) { base in
            let metrics = try await fetch("\(base)/metrics", method: "HEAD")
            #expect(metrics.words == "200 " && metrics["content-length"] == "5")
            #expect(try await fetch("\(base)/readyz", method: "HEAD").status == 503)
        }
    }

    @Test func nothingElseIsServed() async throws {
        try await withServer { base in
            for path in [
                "/index.html", "/status", "/metrics/", "/metricsx", "/Metrics", "//metrics", "/healthz/x", "/etc/passwd", "/%2e%2e/",
            ] { #expect(try await fetch(base + path).status == 404, "\(path)") }
            for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
                let answer = try await fetch("\(base)/metrics", method: method)
                #expect(answer.status == 405 && answer["allow"] == "GET, HEAD", "\(method)")
            }
            #expect(try await fetch("\(base)/nothing", method: "POST").status == 404)
        }
    }

    @Test func anAddressThatIsTakenIsAFailure() async throws {
        try await withServer { base in
            let port = try #require(Int(base.split(separator: ":").last ?? ""))
            let pages = ServedPages(metrics: { _ in "" }, health: { nil }, readiness: { _ in nil }, status: { throw CancellationError() })
            await #expect(throws: (any Error).self) { try await Self.server(port, pages) { _ in }.run() }
        }
    }
}
