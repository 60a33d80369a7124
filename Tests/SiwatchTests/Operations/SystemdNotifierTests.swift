// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import siwatch

struct SystemdNotifierTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        path = folder.path("notify")
    }

    /// - Returns: a name of a socket that no file has.
    private static func abstract(_ length: Int) -> String {
        "@\((UUID().uuidString + String(repeating: "x", count: length)).prefix(length - 1))"
    }

    /// At a path, and at an abstract name, which may have the whole length.
    @Test(arguments: [nil, abstract(50), abstract(107)]) func aSocketIsReached(_ name: String?) throws {
        let address = name ?? path
        let socket = try DatagramSocket(address)
        try SystemdNotifier(address: address).notify(.ready)
        try SystemdNotifier(address: address).notify(.stopping)
        #expect(socket.receive() == "READY=1" && socket.receive() == "STOPPING=1")
    }

    @Test func aStatusForgesNoOtherMessage() throws {
        let socket = try DatagramSocket(path)
        let notifier = SystemdNotifier(address: path)
        try notifier.notify(.status("watching 3 apps"))
        try notifier.notify(.status("one\nREADY=1\r\ntwo"))
        #expect(socket.receive() == "STATUS=watching 3 apps")
        #expect(socket.receive() == "STATUS=one READY=1 two")
    }

    @Test(arguments: [nil, ""]) func nothingIsSentWhereNobodyListens(address: String?) throws {
        try SystemdNotifier(address: address).notify(.ready)
    }

    @Test func aListenerThatIsGoneIsAFailure() throws {
        #expect(throws: SystemdNotifierError(code: ENOENT)) { try SystemdNotifier(address: path).notify(.ready) }
    }

    @Test(arguments: ["notify", "vsock:2:1234", "/" + String(repeating: "x", count: 107), "@" + String(repeating: "x", count: 107)])
    func anAddressThatCannotBeUsedIsRefused(address: String) {
        #expect(throws: SystemdNotifierError(code: EAFNOSUPPORT)) { try SystemdNotifier(address: address).notify(.ready) }
    }

    /// A listener that stopped reading once blocked the daemon.
    @Test func aListenerThatDoesNotReadIsNotWaitedFor() async throws {
        let socket = try DatagramSocket(path)
        let notifier = SystemdNotifier(address: path)
        #expect(throws: SystemdNotifierError(code: EAGAIN)) { while true { try notifier.notify(.watchdog) } }
        await #expect(throws: SystemdNotifierError(code: EAGAIN)) { try await notifier.notify(.ready, within: .zero) }
        while socket.receive() != nil {}
        try await notifier.notify(.ready, within: .zero)
        #expect(socket.receive() == "READY=1")
    }
}

@Suite(.timeLimit(.minutes(10))) struct SystemdTests {
    @Test(.site(listen: "127.0.0.1:0")) func systemdHearsOfTheLifeOfADaemonWhosePagesAreServed() async throws {
        try await site.backend.insert(try await site.apple.signIn(5))
        try await site.folder.expect("run --once", 0)
        let folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        let listener = try DatagramSocket(folder.path("notify"))
        try await site.daemon(environment: ["NOTIFY_SOCKET": folder.path("notify"), "WATCHDOG_USEC": "300000"]) { daemon in
            try await listener.expect("READY=1")
            for _ in 1...3 { try await listener.expect("WATCHDOG=1") }
            let queues = "waiting: 0 notification, 0 sign-in, 0 revocation; 0 checks overdue"
            try await listener.expect("STATUS=5 authorized, 0 revoked, 0 notFound; \(queues)")

            try await site.settle(try await site.apple.signIn(7))
            let pages = try await OperationsPages(of: daemon)
            for page in ["readyz", "healthz"] { try await pages.expect(page, is: "ok\n") }
            // A settlement shows in the tables before it shows in the counters.
            let authorized = #"siwatch_credentials{app="example",state="authorized"} 12"#
            try await pages.expect("metrics", shows: authorized, #"siwatch_grants_total{outcome="applied"} 7"#, "siwatch_seals_total 7")

            daemon.signal(SIGHUP)
            let message = try await listener.receive(where: { $0.hasPrefix("RELOADING=1") })
            #expect(message?.wholeMatch(of: /RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+/) != nil)
            try await listener.expect("READY=1")
        }
        try await listener.expect("STOPPING=1")
        withExtendedLifetime(folder) {}
    }
}

private final class DatagramSocket: Sendable {
    private let descriptor: Int32

    init(_ name: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        try #require(descriptor >= 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { path in
            path.copyBytes(from: name.utf8)
            if path[0] == UInt8(ascii: "@") { path[0] = 0 }
        }
        let length = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path)! + name.utf8.count)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        try #require(bound == 0)
    }

    deinit { close(descriptor) }

    func receive() -> String? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        return count < 0 ? nil : String(decoding: buffer.prefix(count), as: UTF8.self)
    }

    /// Passes over what is not meant.
    func receive(where isMeant: (String) -> Bool) async throws -> String? {
        var message: String?
        try await eventually {
            message = receive()
            return message.map(isMeant) ?? false
        }
        return message
    }

    func expect(_ message: String) async throws { _ = try await receive { $0 == message } }
}
