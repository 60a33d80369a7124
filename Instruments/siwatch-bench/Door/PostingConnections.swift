// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation

/// Posts bodies over many connections, at hardly any cost of its own, because it shares the processors with what it measures.
///
/// Each thread writes a request on all of its connections, and then reads all of the answers.
struct PostingConnections: Sendable {
    let port: UInt16
    let path: String
    let count: Int

    private static let threads = 2

    /// How many were answered in a second, each with a 2xx.
    func answersPerSecond(to bodies: [String]) async throws -> Double {
        let start = ContinuousClock.now
        try await withThrowingTaskGroup { group in
            for thread in 0..<Self.threads {
                let own = stride(from: thread, to: bodies.count, by: Self.threads).map { bodies[$0] }
                group.addTask { try await onThread { try post(own) } }
            }
            try await group.waitForAll()
        }
        return Double(bodies.count) / (ContinuousClock.now - start).inSeconds
    }

    private func post(_ bodies: [String]) throws {
        let connections = try (0..<count / Self.threads).map { _ in try PostingConnection(port: port) }
        for first in stride(from: 0, to: bodies.count, by: connections.count) {
            let some = bodies[first..<min(first + connections.count, bodies.count)]
            for (index, body) in some.enumerated() { try connections[index].write(path, body) }
            for index in 0..<some.count { try connections[index].readAnswer() }
        }
    }
}

private final class PostingConnection {
    private let descriptor: Int32
    private var unread: [UInt8] = []

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        var limit = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard connected == 0 else { throw HarnessError("nobody listens on port \(port)") }
    }

    deinit { close(descriptor) }

    func write(_ path: String, _ body: String) throws {
        let request = "POST \(path) HTTP/1.1\r\nhost: localhost\r\ncontent-length: \(body.utf8.count)\r\n\r\n\(body)"
        var rest = ArraySlice(request.utf8)
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else { throw HarnessError("a connection was lost") }
            rest = rest.dropFirst(sent)
        }
    }

    func readAnswer() throws {
        while true {
            if let length = try lengthOfAnswer() {
                unread.removeFirst(length)
                return
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let read = recv(descriptor, &buffer, buffer.count, 0)
            guard read > 0 else { throw HarnessError("a connection was lost, or no answer came within 30 seconds") }
            unread += buffer.prefix(read)
        }
    }

    private func lengthOfAnswer() throws -> Int? {
        let text = String(decoding: unread, as: UTF8.self)
        guard let end = text.firstRange(of: "\r\n\r\n") else { return nil }
        let head = text[..<end.lowerBound].lowercased()
        guard head.hasPrefix("http/1.1 2") else { throw HarnessError("the answer was: \(text.prefix(300))") }
        let header = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
        let length = head.utf8.count + 4 + (header.flatMap { Int($0.dropFirst("content-length:".count).trimmingPrefix(" ")) } ?? 0)
        return length <= unread.count ? length : nil
    }
}
