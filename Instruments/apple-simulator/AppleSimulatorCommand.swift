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
        var services = ServiceGroupConfiguration(services: [simulator], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
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
private func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

/// - Throws: `ValidationError` if there is no such level.
private func level(_ text: String) throws -> Logger.Level {
    guard let level = Logger.Level(rawValue: text) else { throw ValidationError("There is no log level \(text).") }
    return level
}

/// The text of `--help` beyond the options, in lines of less than 80 characters.
extension AppleSimulatorCommand {
    static let discussion = """
        It answers as Apple does, checks client secrets, and lets people sign in,
        revoke, delete and switch their mail, by control routes on the same port.
        Once it listens it prints: apple-simulator listening on http://127.0.0.1:PORT
        With --print-config that line is a comment before a whole siwatch.toml:
          apple-simulator --print-config > siwatch.toml

        APPLE'S ENDPOINTS
          POST /auth/token   GET /auth/keys   POST /auth/revoke

        CONTROL ROUTES, under /simulator: JSON; times in ms by Apple's clock
          POST   users                 count, address (relay, own, none), SIGN-IN
          GET    users                 the truth about everybody
          GET    users/ID              the truth about one
          POST   sign-ins              PEOPLE, SIGN-IN
          POST   consent-revocations   PEOPLE, client_id, EMISSION
          POST   account-deletions     PEOPLE, EMISSION
          POST   mail-forwarding       PEOPLE, enabled, client_id, EMISSION
          POST   password-changes      PEOPLE
          POST   notifications         PEOPLE, type, client_id, EMISSION:
                                       says it, changes nothing
          GET    notifications         the latest 10,000
          POST   notifications/JTI/redelivery
          POST   keys/rotation         keep_former
          POST   client-keys           client_id, key_id, public_key (PEM)
          DELETE client-keys/ID
          GET    clock
          PUT    clock                 offset_ms
          POST   preparations          signs the next answers ahead
          POST   faults                FAULT
          GET    faults
          DELETE faults, faults/ID
          GET    counters
          DELETE counters
          GET    openapi.json          these routes, for programs

          PEOPLE    user_ids, or any: the first so many to whom it can happen
          SIGN-IN   client_id, credential (refresh_token, authorization_code,
                    none), redirect_uri, nonce, granted_at,
                    id_token (true: beside the code, as the device gets it)
          EMISSION  event_time, issued_at, deliver, events_as_object,
                    event_time_in_seconds, is_private_email (string, bool,
                    absent), deletion_spelling (account-delete,
                    account-deleted), audience (latest, primary, or a client),
                    signature (genuine, forged, unknown_key)
          FAULT     endpoint (token, keys, revoke), grant_type, user_ids,
                    user_share, client_id, count, delay_ms, loses (request,
                    answer), status, headers, body, padding,
                    connection (reset, hang, cut), id_token (another_subject,
                    another_audience, another_issuer, another_nonce,
                    missing_nonce, expired, issued_in_future, forged,
                    unknown_key, not_a_jwt, missing; no flaws:
                    nonce_unsupported, string_flags)

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
    ///
    /// - Throws: an error of Foundation about the file, or of swift-crypto about its text.
    static func load(id: String, orCreate path: String) throws -> ClientKey {
        let url = URL(fileURLWithPath: path)
        if FileManager.default.fileExists(atPath: path) {
            return try ClientKey(id: id, pem: String(contentsOf: url, encoding: .utf8))
        }
        let key = ClientKey.generate(id: id)
        // Set the mask, so that no other user can read the file even for a moment. The process makes no other file here.
        umask(0o077)
        try Data("\(key.pem)\n".utf8).write(to: url, options: .withoutOverwriting)
        return key
    }
}

/// A whole `siwatch.toml` that points siwatch at this simulator.
///
/// Its file names are absolute, because relative names begin at the configuration's folder, which the simulator does not know.
enum SiwatchConfiguration {
    static func text(baseURL: String, group: AppGroup, keyID: String, keyFile: String) -> String {
        """
        [database]
        path = \(quoted(absolute("siwatch.sqlite")))

        [encryption]
        key_file = \(quoted(absolute("siwatch.key")))

        [[app]]
        name = "example"
        team_id = \(quoted(group.teamID))
        client_ids = [\(group.clientIDs.map(quoted).joined(separator: ", "))]

        [[app.key]]
        id = \(quoted(keyID))
        file = \(quoted(absolute(keyFile)))

        [apple]
        token_endpoint = "\(baseURL)/auth/token"
        revocation_endpoint = "\(baseURL)/auth/revoke"
        keys_endpoint = "\(baseURL)/auth/keys"
        """
    }

    /// Relative to the folder that the simulator was started in.
    private static func absolute(_ path: String) -> String { URL(filePath: path).absoluteURL.standardizedFileURL.path }

    private static func quoted(_ text: String) -> String {
        "\"\(text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\""))\""
    }
}
