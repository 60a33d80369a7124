// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import DaemonHarness
import Foundation
import Logging
import ServiceLifecycle
import UnixSignals

/// Runs the simulator as a process of its own.
@main
struct SimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch-simulator",
        abstract: "Apple's side of Sign in with Apple, on loopback.",
        discussion: discussion,
        subcommands: [Dev.self, Trigger.self]
    )

    @Option(help: "The port on 127.0.0.1; 0 takes a free one.")
    var port = 0

    @Option(help: "The team that client secrets are issued by.")
    var teamID = "A1B2C3D4E5"

    @Option(name: .customLong("client-id"), help: "A client of the app group, the primary App ID first. Repeat for Services IDs.")
    var clientIDs: [String] = []

    @Option(help: "The id of the key that signs client secrets.")
    var keyID = "ABC123DEFG"

    @Option(help: "Its .p8 file, made with mode 0600 if there is none. (default: AuthKey_<key id>.p8)")
    var keyFile: String?

    @Option(help: "Post each notification to this URL, and again if the answer is not 200.")
    var notifyURL: String?

    @Option(help: "For how many seconds an answer to a refresh may be given again. Signing one takes about 0.5 ms.")
    var answerReuse = 60

    @Flag(help: "Leave the id_token out of answers to refreshes, as in 2019. Many times faster.")
    var noIDTokenOnRefresh = false

    @Flag(help: "Print a whole siwatch.toml for this simulator once it is listening, with the address as a comment.")
    var printConfig = false

    @Option(help: "trace, debug, info, notice, warning, error or critical; to standard error.", transform: level)
    var logLevel = Logger.Level.notice

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("There is no port \(port).") }
        guard Set(clientIDs).count == clientIDs.count else { throw ValidationError("Each --client-id may be given once.") }
    }

    func run() async throws {
        let keyFile = keyFile ?? "AuthKey_\(keyID).p8"
        let key = try ClientKey.load(id: keyID, orCreate: keyFile)
        let group = AppGroup(
            teamID: teamID,
            clientIDs: clientIDs.isEmpty ? ["com.example.app", "com.example.web"] : clientIDs,
            keys: [key.registered]
        )
        var logger = Logger(label: "siwatch-simulator", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = logLevel
        let prints = printConfig
        let simulator = try AppleSimulator(configuration(for: group), logger: logger) { baseURL in
            // A file that gets this output is valid TOML from its first line on.
            say("\(prints ? "# " : "")siwatch-simulator listening on \(baseURL)")
            if prints { say(Self.siwatchConfiguration(at: baseURL, group, keyID: key.id, keyFile: keyFile)) }
        }
        var services = ServiceGroupConfiguration(services: [simulator], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        services.maximumGracefulShutdownDuration = .seconds(5)
        try await ServiceGroup(configuration: services).run()
    }

    /// The simulator does not know the folder of the file, where relative names begin. Here they begin at the folder that it was started in.
    private static func siwatchConfiguration(at url: String, _ group: AppGroup, keyID: String, keyFile: String) -> String {
        func absolute(_ path: String) -> String { URL(filePath: path).absoluteURL.standardizedFileURL.path }
        func assigned(_ name: String, _ path: String) -> String { "\(name) = \(SiwatchConfiguration.quoted(absolute(path)))" }
        return SiwatchConfiguration.text(
            apple: url,
            teamID: group.teamID,
            clientIDs: group.clientIDs,
            keyID: keyID,
            keyFile: absolute(keyFile),
            ["database": assigned("path", "siwatch.sqlite"), "encryption": assigned("key_file", "siwatch.key")]
        )
    }

    private func configuration(for group: AppGroup) -> SimulatorConfiguration {
        var configuration = SimulatorConfiguration(groups: [group])
        configuration.port = port
        configuration.answerReuse = .seconds(answerReuse)
        configuration.refreshCarriesIDToken = !noIDTokenOnRefresh
        configuration.delivery = notifyURL.map { DeliveryTarget(url: $0) }
        return configuration
    }
}

/// Writes a line without buffering, because a test may wait for it on a pipe. A reader that is gone does not matter.
func say(_ line: String) { try? FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8)) }

private func level(_ text: String) throws -> Logger.Level {
    guard let level = Logger.Level(rawValue: text) else { throw ValidationError("There is no log level \(text).") }
    return level
}

/// The text of `--help` beyond the options, in lines of less than 80 characters.
extension SimulatorCommand {
    static let discussion = """
        It answers as Apple does, checks client secrets, and lets people sign in,
        revoke, delete and switch their mail, by control routes on the same port.
        To try siwatch beside it, see siwatch-simulator help dev.

        Once it listens it prints: siwatch-simulator listening on http://127.0.0.1:PORT
        With --print-config that line is a comment before a whole siwatch.toml:
          siwatch-simulator --print-config > siwatch.toml

        APPLE'S ENDPOINTS
          POST /auth/token   GET /auth/keys   POST /auth/revoke

        CONTROL ROUTES, under /simulator: JSON; times in ms by Apple's clock
          GET /simulator/openapi.json describes all, and docs/simulator.md explains.

        EXAMPLE
          curl -d '{"count": 3}' URL/simulator/users
          curl -d '{"any": 1}' URL/simulator/consent-revocations
          curl -d '{"status": 503, "count": 10}' URL/simulator/faults
          curl -d '{"id_token": "expired", "grant_type": "authorization_code",
                    "count": 1}' URL/simulator/faults
        """
}

extension ClientKey {
    /// Reads the `.p8` file, or makes a key and the file with mode 0600 if there is none.
    static func load(id: String, orCreate path: String) throws -> ClientKey {
        let url = URL(fileURLWithPath: path)
        if FileManager.default.fileExists(atPath: path) { return try ClientKey(id: id, pem: String(contentsOf: url, encoding: .utf8)) }
        let key = ClientKey.generate(id: id)
        // Set the mask, so that no other user can read the file even for a moment. The process makes no other file here.
        umask(0o077)
        try Data("\(key.pem)\n".utf8).write(to: url, options: .withoutOverwriting)
        return key
    }
}
