// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialMonitor
import Foundation
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Serves `siwatch status` over a Unix socket that only the service's user and root can open, so that nobody else can answer in siwatch's
/// place. Nothing else depends on it: if it cannot be had, siwatch works without.
struct StatusSocket: Service {
    var path: String
    /// Whether the folder has to be there. The usual one is made by systemd, and is missing where siwatch cannot make it.
    var isAsked: Bool
    var logger: Logger
    var respond: @Sendable (Request) async -> Response

    func run() async throws {
        do throws(Obstacle) {
            try makeRoom()
            try await serve()
        } catch {
            if let reason = error.reason { logger.log(.socketUnavailable, ["reason": "\(path): \(reason)"]) }
        }
        try? await gracefulShutdown()
    }

    private struct Obstacle: Error {
        /// Nil if it is not worth a word.
        var reason: String?
    }

    /// Removes the socket of a siwatch that has ended.
    private func makeRoom() throws(Obstacle) {
        var status = stat()
        let folder = URL(filePath: path).deletingLastPathComponent().path
        // A container has an empty /run that siwatch may write. For root somebody else makes the folder, because root would own it.
        if geteuid() != 0 { mkdir(folder, 0o700) }
        guard lstat(folder, &status) == 0 else { throw Obstacle(reason: isAsked ? systemError() : nil) }
        if let danger = UnixSocket.danger(at: path) { throw Obstacle(reason: danger) }
        if let reason = UnixSocket.obstacle(at: path) { throw Obstacle(reason: reason) }
    }

    private func serve() async throws(Obstacle) {
        do {
            try await BoundedServer(
                host: path,
                limits: ConnectionLimits(),
                logger: logger,
                onListening: { _ in chmod(path, 0o600) },
                respond: respond
            ).run()
        } catch let error as IOError {
            throw Obstacle(reason: systemError(error.errnoCode))
        } catch {
            throw Obstacle(reason: "\(error)")
        }
        // The next siwatch may listen there already.
        if !UnixSocket.isListenedOn(path) { unlink(path) }
    }
}
