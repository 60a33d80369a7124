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
        if let reason = await obstacle() { logger.log(.socketUnavailable, ["reason": "\(path): \(reason)"]) }
        try? await gracefulShutdown()
    }

    /// Serves until a stop. Returns why it cannot, if that is worth a word.
    private func obstacle() async -> String? {
        // A container has an empty /run that siwatch may write. For root somebody else makes the folder, because root would own it.
        if geteuid() != 0 { mkdir(path.folder, 0o700) }
        guard stat(notFollowing: path.folder) != nil else { return isAsked ? systemError() : nil }
        if let reason = UnixSocket.danger(at: path) ?? UnixSocket.obstacle(at: path) { return reason }
        let letIn: @Sendable (Int) async -> Void = { _ in chmod(path, 0o600) }
        do {
            try await BoundedServer(host: path, limits: ConnectionLimits(), logger: logger, onListening: letIn, respond: respond).run()
        } catch {
            return (error as? IOError).map { systemError($0.errnoCode) } ?? "\(error)"
        }
        // The next siwatch may listen there already.
        if !UnixSocket.isListenedOn(path) { unlink(path) }
        return nil
    }
}
