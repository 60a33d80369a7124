// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import DaemonHarness
import Foundation
import NIOCore
import Testing

struct SystemdTests {
    @Test func readyAndStoppingReachTheNotifySocket() async throws {
        try await Site.with { site in
            let path = site.folder.url.appending(path: "notify").path
            let listener = try NotifySocket(path: path)
            try await site.daemon(environment: ["NOTIFY_SOCKET": path]) { _ in
                #expect(await listener.receive() == "READY=1")
            }
            #expect(await listener.receive() == "STOPPING=1")
        }
    }

    @Test func readinessAndMetricsAreServed() async throws {
        let port = try NotifySocket.freePort()
        try await Site.with(listen: "127.0.0.1:\(port)") { site in
            try await site.daemon { _ in
                try await site.settle(try await site.apple.signIn(7))
                func get(_ path: String) async throws -> String {
                    let response = try await HTTPClient.shared.execute(
                        HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)"),
                        timeout: .seconds(30)
                    )
                    return String(buffer: try await response.body.collect(upTo: 1 << 20))
                }
                #expect(try await get("/readyz") == "ok\n")
                #expect(try await get("/healthz") == "ok\n")
                let metrics = try await get("/metrics")
                #expect(metrics.contains(#"siwatch_credentials{app="example",state="authorized"} 7"#))
                #expect(metrics.contains(#"siwatch_grants_total{outcome="applied"} 7"#))
                #expect(metrics.contains("siwatch_seals_total 7"))
            }
        }
    }
}

/// The other end of `NOTIFY_SOCKET`.
private final class NotifySocket: Sendable {
    private let descriptor: Int32

    init(path: String) throws {
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

    deinit { close(descriptor) }

    /// The next message; nil after 30 seconds without one.
    func receive() async -> String? {
        await withCheckedContinuation { continuation in
            // On a thread of its own: it blocks.
            DispatchQueue.global().async { [descriptor] in
                var buffer = [UInt8](repeating: 0, count: 4096)
                let count = recv(descriptor, &buffer, buffer.count, 0)
                continuation.resume(returning: count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self))
            }
        }
    }

    /// A port that was free a moment ago.
    static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 ? getsockname(descriptor, pointer, &length) : -1
            }
        }
        guard result == 0 else { throw HarnessError("no free port") }
        return UInt16(bigEndian: address.sin_port)
    }
}
