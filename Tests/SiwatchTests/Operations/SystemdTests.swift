// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
import Testing

struct SystemdTests {
    @Test(.site) func readyAndStoppingReachTheNotifySocket() async throws {
        let listener = try NotifySocket()
        try await site.daemon(environment: ["NOTIFY_SOCKET": listener.path]) { _ in
            #expect(await listener.receive("READY=1"))
        }
        #expect(await listener.receive("STOPPING=1"))
    }

    @Test(.site) func figuresAndProgressAreReported() async throws {
        try await site.backend.insert(try await site.apple.signIn(5))
        #expect(try await site.folder.run("run", "--once").status == 0)
        let listener = try NotifySocket()
        try await site.daemon(environment: ["NOTIFY_SOCKET": listener.path, "WATCHDOG_USEC": "300000"]) { _ in
            #expect(await listener.receive("READY=1"))
            for _ in 1...3 { #expect(await listener.receive("WATCHDOG=1")) }
            #expect(
                await listener.receive(
                    "STATUS=5 authorized, 0 revoked, 0 notFound; waiting: 0 notification, 0 sign-in, 0 revocation; 0 checks overdue"
                ),
                "\(Set(listener.passed))"
            )
        }
    }

    @Test(.site) func aReloadIsAnnouncedAndEndsReady() async throws {
        let listener = try NotifySocket()
        try await site.daemon(environment: ["NOTIFY_SOCKET": listener.path]) { daemon in
            #expect(await listener.receive("READY=1"))
            daemon.signal(SIGHUP)
            let message = await listener.receive(where: { $0.hasPrefix("RELOADING=1") })
            #expect(message?.wholeMatch(of: /RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+/) != nil)
            #expect(await listener.receive("READY=1"))
        }
    }

    @Test(.site(listen: "127.0.0.1:0")) func readinessAndMetricsAreServed() async throws {
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(7))
            let operations = try await OperationsPages(of: daemon)
            for page in ["readyz", "healthz"] {
                let body = try await operations.get(page, within: .seconds(60)) { $0 == "ok\n" }
                #expect(body == "ok\n", "\(page)")
            }
            // A settlement shows in the tables before it shows in the counters.
            let figures = [
                #"siwatch_credentials{app="example",state="authorized"} 7"#, #"siwatch_grants_total{outcome="applied"} 7"#,
                "siwatch_seals_total 7",
            ]
            let metrics = try await operations.get("metrics", within: .seconds(60)) { page in figures.allSatisfy { page.contains($0) } }
            for figure in figures { #expect(metrics.contains(figure)) }
        }
    }
}

private final class NotifySocket: Sendable {
    /// Not in the site's folder, whose path may be too long for a socket.
    let path = "/tmp/siwatch-notify-\(UUID().uuidString.prefix(8))"
    private let descriptor: Int32
    private let others = NIOLockedValueBox<[String]>([])

    init() throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let length = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        guard descriptor >= 0, result == 0 else { throw HarnessError("no socket at \(path)") }
        var timeout = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    var passed: [String] { others.withLockedValue { $0 } }
    func receive(_ message: String) async -> Bool { await receive { $0 == message } != nil }

    func receive(where isMeant: (String) -> Bool) async -> String? {
        let end = ContinuousClock.now + .seconds(30)
        while .now < end, let message = await receive() {
            if isMeant(message) { return message }
            others.withLockedValue { $0.append(message) }
        }
        return nil
    }

    private func receive() async -> String? {
        await withCheckedContinuation { continuation in
            // On a thread of its own, because it blocks.
            DispatchQueue.global().async { [descriptor] in
                var buffer = [UInt8](repeating: 0, count: 4096)
                let count = recv(descriptor, &buffer, buffer.count, 0)
                continuation.resume(returning: count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self))
            }
        }
    }
}
