// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import BoundedHTTP
import CredentialCore
import CredentialMonitor
import CredentialSealing
import Foundation
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// The door at which backends tell and ask over HTTP.
struct HTTPDoor: Service {
    let listen: Configuration.HTTP.Listen
    let socketMode: mode_t
    let api: BackendAPI
    let watch: DoorWatch
    let refusals: DoorRefusals
    let certificate: ServerCertificate?
    let logger: Logger
    let limits: ConnectionLimits
    let onListening: @Sendable (_ address: String) -> Void

    func run() async throws {
        let host: String
        let port: Int?
        switch listen {
        case .address(let address): (host, port) = (address.host, address.port)
        case .socket(let path):
            if let reason = UnixSocket.obstacle(at: path) { throw unavailable(path, reason) }
            (host, port) = (path, nil)
        }
        let server = BoundedServer(
            host: host,
            port: port,
            limits: limits,
            certificate: certificate,
            logger: logger,
            onListening: { port in
                if case .socket(let path) = listen { chmod(path, socketMode) }
                onListening(text(port))
            },
            respond: api.respond
        )
        do {
            try await withGracefulShutdownHandler {
                try await server.run()
            } onGracefulShutdown: {
                // Answers the requests that wait for news, so that they do not hold up the stop. A task, because the handler cannot wait.
                // It ends after one step.
                Task { await api.end() }
            }
        } catch let error as IOError {
            throw unavailable(text(nil), systemError(error.errnoCode))
        }
        if case .socket(let path) = listen, !UnixSocket.isListenedOn(path) { unlink(path) }
    }

    private func text(_ port: Int?) -> String {
        switch listen {
        case .address(let address): "\(ListenAddress(host: address.host, port: port ?? address.port))"
        case .socket(let path): path
        }
    }

    private func unavailable(_ place: String, _ reason: String) -> CommandFailure {
        .unavailable("http.listen: \(place.printable) cannot be listened on: \(reason)")
    }
}

extension Daemon {
    /// - Parameter onAppended: called after each commit with the queues that have new rows.
    static func door(
        _ keys: HTTPKeys,
        _ apple: AppleAccess,
        _ context: DaemonContext,
        onAppended: @escaping @Sendable (Set<Queue>) -> Void
    ) throws -> HTTPDoor? {
        let http = context.configuration.http
        guard let listen = http.listen else { return nil }
        let telemetry = context.telemetry
        let (watch, refusals) = (DoorWatch(), DoorRefusals(clock: context.clock, telemetry: telemetry))
        for client in http.clients { telemetry.gauge(.httpRefusals, 0, ["client": client.name]) }
        var quiet = context.logger
        quiet.logLevel = max(quiet.logLevel, .warning)
        return HTTPDoor(
            listen: listen,
            socketMode: mode_t(http.socketMode, radix: 8) ?? 0o600,
            api: BackendAPI(
                context.doorStore,
                verifier: apple.notificationVerifier,
                apps: context.configuration.clientsOfApps,
                clients: keys.clients(of: http),
                requestsPerSecond: http.maxRequestsPerSecond,
                clock: context.clock,
                latestSignIn: { [context] in
                    // A clock of siwatch's that is behind makes no mistake of a backend.
                    max(context.clock.now, context.clockGuard.appleTime).advanced(by: context.configuration.queues.clockSkew)
                },
                intakeTest: context.sealer.intakeTest.answer(to:),
                onAppended: onAppended
            ) { served in
                telemetry.served(client: served.client, operation: served.operation, status: served.status)
                refusals.note(served)
                guard let use = served.use else { return }
                switch watch.note(use, failure: served.failure) {
                case .failed: telemetry.log(.doorFailed, ["use": "\(use.rawValue)", "error": "\(served.failure ?? "")"])
                case .recovered: telemetry.log(.doorRecovered, ["use": "\(use.rawValue)"])
                case nil: break
                }
            },
            watch: watch,
            refusals: refusals,
            certificate: try keys.certificate.map { try ServerCertificate(chain: $0.chain, key: $0.key.reveal) },
            logger: quiet,
            // A long poll takes 25 seconds. Beyond the number, the connection that has been idle for longest is closed.
            limits: .init(count: OwnProcess.doorConnections(of: context.configuration), answer: .seconds(40), idle: .minutes(1))
        ) { [logger = context.logger] address in
            logger.log(.doorOpen, ["address": "\(address)"])
        }
    }
}

extension HTTPDoor {
    func use(_ keys: HTTPKeys, _ http: Configuration.HTTP) {
        api.use(keys.clients(of: http), requestsPerSecond: http.maxRequestsPerSecond)
        // The keys were found usable when they were read.
        if let new = keys.certificate { try? certificate?.replace(chain: new.chain, key: new.key.reveal) }
    }
}

/// The secrets of the door, read and found usable.
struct HTTPKeys {
    /// By the name of a client.
    var tokens: [String: [Secret]] = [:]
    /// PEM.
    var certificate: (chain: String, key: Secret)?

    func clients(of http: Configuration.HTTP) -> [Client] {
        http.clients.map { Client(name: $0.name, tokens: tokens[$0.name] ?? [], rights: Set($0.may)) }
    }

    /// In bytes.
    private static let longestCertificate = 1 << 18

    /// - Returns: nil if the configuration names none.
    static func certificate(of http: Configuration.HTTP) throws(CommandFailure) -> (chain: String, key: Secret)? {
        guard let chainFile = http.certificateFile, let keyFile = http.certificateKeyFile else { return nil }
        do {
            let chain = try TextFile.read(chainFile, limit: longestCertificate)
            let key = try TextFile.read(keyFile, limit: longestCertificate, isSecret: true)
            _ = try ServerCertificate(chain: chain, key: key)
            return (chain, Secret(key))
        } catch let error as TextFileError {
            throw .unusable(["http.certificate_file: \(chainFile.printable), or its key: \(error)"])
        } catch {
            throw .unusable(["http.certificate_file: \(chainFile.printable) and its key are no certificate in PEM with its own key"])
        }
    }
}
