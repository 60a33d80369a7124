// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import NIOConcurrencyHelpers

/// The road between a store and its server: a socket that passes everything on, and can be cut at a chosen byte.
final class RoadToServer: Sendable {
    enum Cut: Sendable {
        /// The words with these bytes do not come to the server.
        case beforeTheServerHears(String)
        /// The words with these bytes do not come back.
        case beforeTheClientHears(String)
    }

    private struct State {
        var cut: Cut?
        var refusals = 0
        var open: [Int32] = []
        var isDark = false
        /// How often somebody came.
        var visits = 0
    }

    /// Where clients find its socket.
    private let folder: URL
    private let server: URL
    private let listener: Int32
    private let state = NIOLockedValueBox(State())

    init(_ server: URL) throws {
        self.server = server
        folder = URL(filePath: "/tmp/siwatch-road-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let socket = listener
        guard Self.withAddress(in: folder, { bind(socket, $0, $1) }) == 0, listen(socket, 16) == 0 else { throw POSIXError(.EIO) }
        Thread { [weak self] in
            while case let client = accept(socket, nil, nil), client >= 0 { self?.lead(client) }
        }.start()
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        try? FileManager.default.removeItem(at: folder)
    }

    /// As libpq reads it.
    var address: String { "host=\(folder.path) user=\(PostgresServer.user) dbname=postgres" }

    /// Cuts every road once, when these words are under way.
    ///
    /// - Parameter refusals: how many new ones come to nothing after that.
    func cut(_ cut: Cut, refusals: Int = 0) {
        state.withLockedValue {
            $0.cut = cut
            $0.refusals = refusals
        }
    }

    /// Cuts every road there is.
    func cut() {
        for end in state.withLockedValue(\.open) { shutdown(end, Int32(SHUT_RDWR)) }
    }

    /// From now on it swallows what is sent, and closes nothing.
    func darken() {
        state.withLockedValue { $0.isDark = true }
    }

    var visits: Int { state.withLockedValue(\.visits) }

    private func lead(_ client: Int32) {
        state.withLockedValue { $0.visits += 1 }
        let isRefused = state.withLockedValue { state in
            if state.cut != nil || state.refusals == 0 { return false }
            state.refusals -= 1
            return true
        }
        let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
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

    /// - Returns: whether the road goes on.
    private func pass(from: Int32, to: Int32, isToServer: Bool) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = read(from, &bytes, bytes.count)
        guard count > 0 else { return false }
        if state.withLockedValue(\.isDark) { return true }
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

    /// - Parameter folder: of a server's socket.
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
