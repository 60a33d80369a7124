// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import siwatch

struct SystemdNotifierTests {
    @Test func aSocketAtAPathIsReached() throws {
        let folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        let socket = try DatagramSocket(folder.path("notify"))
        try SystemdNotifier(address: folder.path("notify")).notify(.ready)
        #expect(socket.receive() == "READY=1")
    }

    @Test func anAbstractSocketIsReached() throws {
        let name = "@siwatch-test-\(UUID().uuidString)"
        let socket = try DatagramSocket(name)
        try SystemdNotifier(address: name).notify(.stopping)
        #expect(socket.receive() == "STOPPING=1")
    }

    @Test func aStatusForgesNoOtherMessage() throws {
        let folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        let socket = try DatagramSocket(folder.path("notify"))
        let notifier = SystemdNotifier(address: folder.path("notify"))
        try notifier.notify(.status("watching 3 apps"))
        try notifier.notify(.status("one\nREADY=1\r\ntwo"))
        #expect(socket.receive() == "STATUS=watching 3 apps")
        #expect(socket.receive() == "STATUS=one READY=1 two")
    }

    @Test(arguments: [nil, ""]) func nothingIsSentWhereNobodyListens(address: String?) throws {
        try SystemdNotifier(address: address).notify(.ready)
    }

    @Test func aListenerThatIsGoneIsAFailure() throws {
        let folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        #expect(throws: SystemdNotifierError(code: ENOENT)) { try SystemdNotifier(address: folder.path("notify")).notify(.ready) }
    }

    @Test(arguments: ["notify", "vsock:2:1234", "/" + String(repeating: "x", count: 107), "@" + String(repeating: "x", count: 107)])
    func anAddressThatCannotBeUsedIsRefused(address: String) {
        #expect(throws: SystemdNotifierError(code: EAFNOSUPPORT)) { try SystemdNotifier(address: address).notify(.ready) }
    }

    /// A listener that stopped reading once blocked the daemon.
    @Test func aListenerThatDoesNotReadIsNotWaitedFor() async throws {
        let folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        let socket = try DatagramSocket(folder.path("notify"))
        let notifier = SystemdNotifier(address: folder.path("notify"))
        #expect(throws: SystemdNotifierError(code: EAGAIN)) { while true { try notifier.notify(.watchdog) } }
        await #expect(throws: SystemdNotifierError(code: EAGAIN)) { try await notifier.notify(.ready, within: .zero) }
        while socket.receive() != nil {}
        try await notifier.notify(.ready, within: .zero)
        #expect(socket.receive() == "READY=1")
    }

    @Test func anAddressMayHaveItsWholeLength() throws {
        let name = "@" + UUID().uuidString + String(repeating: "x", count: 70)
        try #require(name.utf8.count == 107)
        let socket = try DatagramSocket(name)
        try SystemdNotifier(address: name).notify(.ready)
        #expect(socket.receive() == "READY=1")
    }
}

final class DatagramSocket: Sendable {
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
}
