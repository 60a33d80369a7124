// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import Foundation
import Logging
import ServiceLifecycle
import UnixSignals

/// Runs the simulator as a process of its own.
@main
struct AppleSimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apple-simulator",
        abstract: "Apple's side of Sign in with Apple, on loopback.",
        discussion: discussion
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

    @Option(help: "How many seconds Apple's clock is ahead of this machine's.")
    var clockOffset = 0

    @Option(help: "For how many seconds an answer to a refresh may be given again. Signing one takes about 0.5 ms.")
    var answerReuse = 60

    @Flag(help: "Leave the id_token out of answers to refreshes, as in 2019. Many times faster.")
    var noIDTokenOnRefresh = false

    @Flag(help: "Let /auth/revoke cause a consent-revoked notification.")
    var revocationNotifies = false

    @OptionGroup(title: "How notifications look")
    var style: StyleOptions

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
        var logger = Logger(label: "apple-simulator", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = logLevel
        let prints = printConfig
        let simulator = try AppleSimulator(configuration(for: group), logger: logger) { baseURL in
            // A file that gets this output is valid TOML from its first line on.
            say("\(prints ? "# " : "")apple-simulator listening on \(baseURL)")
            if prints { say(SiwatchConfiguration.text(baseURL: baseURL, group: group, keyID: key.id, keyFile: keyFile)) }
        }
        var services = ServiceGroupConfiguration(
            services: [simulator],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        services.maximumGracefulShutdownDuration = .seconds(5)
        try await ServiceGroup(configuration: services).run()
    }

    private func configuration(for group: AppGroup) -> SimulatorConfiguration {
        var configuration = SimulatorConfiguration(groups: [group])
        configuration.port = port
        configuration.clockOffset = .seconds(clockOffset)
        configuration.answerReuse = .seconds(answerReuse)
        configuration.refreshCarriesIDToken = !noIDTokenOnRefresh
        configuration.revocationNotifies = revocationNotifies
        configuration.style = style.style
        configuration.delivery = notifyURL.map { DeliveryTarget(url: $0) }
        return configuration
    }
}

/// Writes a line without buffering, because a test may wait for it on a pipe.
private func say(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

/// - Throws: `ValidationError` if there is no such level.
private func level(_ text: String) throws -> Logger.Level {
    guard let level = Logger.Level(rawValue: text) else { throw ValidationError("There is no log level \(text).") }
    return level
}
