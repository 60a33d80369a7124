// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Foundation
import NIOConcurrencyHelpers

/// The road between a store and its server: a socket that passes all on. A test can cut it at a chosen byte, close, slow or darken it.
package final class RoadToServer: Sendable {
    package enum Cut: Sendable {
        /// Cuts before the server gets the message with these bytes.
        case beforeTheServerHears(String)
        /// Cuts before the client gets the message with these bytes.
        case beforeTheClientHears(String)
    }

    package enum Condition: Sendable, Equatable {
        case open
        case slow(Duration)
        /// Holds all bytes back until the road is open again, and tells neither end.
        case dark
        case closed
    }

    private struct State {
        var cut: Cut?
        var refusals = 0
        var condition = Condition.open
        var open: [Int32] = []
        /// How many connections came.
        var visits = 0
    }

    package let folder: URL
    private let server: URL
    private let listener: Int32
    private let state = NIOLockedValueBox(State())

    /// - Parameter server: the folder of the server's socket.
    package init(_ server: URL) throws {
        self.server = server
        folder = URL(filePath: "/tmp/siwatch-road-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        listener = Self.makeSocket()
        let socket = listener
        guard Self.withAddress(in: folder, { bind(socket, $0, $1) }) == 0, listen(socket, 16) == 0 else { throw POSIXError(.EIO) }
        Thread { [weak self] in
            while case let client = accept(socket, nil, nil), client >= 0 {
                _ = fcntl(client, F_SETFD, FD_CLOEXEC)
                if let self { self.lead(client) } else { close(client) }
            }
            close(socket)
        }.start()
    }

    deinit {
        // The accepting thread may be inside accept(), so it closes the descriptor itself, before another file gets the number.
        shutdown(listener, Int32(SHUT_RDWR))
        try? FileManager.default.removeItem(at: folder)
    }

    package var address: String { "host=\(folder.path) user=\(PostgresServer.user) dbname=postgres" }

    /// Cuts all connections once, when these bytes pass.
    ///
    /// - Parameter refusals: how many new connections fail after that.
    package func cut(_ cut: Cut, refusals: Int = 0) {
        state.withLockedValue { ($0.cut, $0.refusals) = (cut, refusals) }
    }

    package func cut() {
        // Hold the lock. A thread closes each descriptor that it takes out, and the system soon reuses the number.
        state.withLockedValue { state in
            for end in state.open { shutdown(end, Int32(SHUT_RDWR)) }
        }
    }

    package var visits: Int { state.withLockedValue(\.visits) }

    package var condition: Condition {
        get { state.withLockedValue(\.condition) }
        set {
            state.withLockedValue { $0.condition = newValue }
            if newValue == .closed { cut() }
        }
    }

    private func lead(_ client: Int32) {
        state.withLockedValue { $0.visits += 1 }
        let isRefused = state.withLockedValue { state in
            if state.condition == .closed { return true }
            if state.cut != nil || state.refusals == 0 { return false }
            state.refusals -= 1
            return true
        }
        let server = Self.makeSocket()
        guard !isRefused, Self.withAddress(in: self.server, { connect(server, $0, $1) }) == 0 else {
            close(client)
            close(server)
            return
        }
        state.withLockedValue { $0.open += [client, server] }
        Thread { [weak self] in
            var ends = [client, server].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            passing: while poll(&ends, 2, -1) > 0 {
                for (from, to) in [(0, 1), (1, 0)] where ends[from].revents != 0 {
                    guard let self, self.pass(from: ends[from].fd, to: ends[to].fd, isToServer: from == 0) else { break passing }
                }
            }
            self?.state.withLockedValue { $0.open.removeAll { [client, server].contains($0) } }
            close(client)
            close(server)
        }.start()
    }

    /// - Returns: whether the connection stays open.
    private func pass(from: Int32, to: Int32, isToServer: Bool) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = read(from, &bytes, bytes.count)
        guard count > 0, arrives() else { return false }
        let isCut = state.withLockedValue { state in
            let words: String
            switch state.cut {
            case .beforeTheServerHears(let text) where isToServer: words = text
            case .beforeTheClientHears(let text) where !isToServer: words = text
            default: return false
            }
            guard bytes[..<count].firstRange(of: Array(words.utf8)) != nil else { return false }
            state.cut = nil
            return true
        }
        if isCut { return false }
        var sent = 0
        while sent < count {
            let written = bytes[sent..<count].withUnsafeBytes { send(to, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard written > 0 else { return false }
            sent += written
        }
        return true
    }

    /// Blocks the thread for as long as the road's condition holds bytes back.
    private func arrives() -> Bool {
        while true {
            switch condition {
            case .open: return true
            case .slow(let delay):
                usleep(UInt32(delay / .microseconds(1)))
                return true
            case .dark: usleep(20_000)
            case .closed: return false
            }
        }
    }

    /// Makes a socket that no child of this process inherits, because it would stay open there.
    private static func makeSocket() -> Int32 { socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0) }

    /// - Parameter folder: the folder of a server's socket.
    private static func withAddress(in folder: URL, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let path = folder.appending(path: ".s.PGSQL.5432").path
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }
}
