// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import Foundation
import NIOConcurrencyHelpers

/// `doctor --online`: what Apple itself says of the configuration, without a user.
struct OnlineCheck {
    private let configuration: Configuration
    private let transport: ObservedTransport
    private let clock = Invocation.current.clock
    private let skew = NIOLockedValueBox<Int64?>(nil)
    private(set) var findings: [Finding] = []
    private var unanswered = 0

    /// - Parameter keys: by app, as a configuration reads them; nil if this process cannot.
    init(_ configuration: Configuration, _ keys: [String: [ClientSecretKey]]?) async {
        let client = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: .bounded)
        self.configuration = configuration
        transport = ObservedTransport(client: client, version: Version.current, timeout: configuration.refresh.timeout) {
            [clock, skew] exchange in
            guard let date = exchange.date, exchange.duration <= ClockTrust.longestExactExchange else { return }
            let ahead = clock.now.duration(to: ClockTrust.time(of: date)).milliseconds
            skew.withLockedValue { $0 = ahead }
        }
        await lookAtApple()
        if unanswered == 0 {
            if let keys {
                await prove(keys)
            } else {
                findings.append(Finding(.degraded, "systemd hides the keys from this command, so no client was asked about"))
            }
        }
        try? await client.shutdown()
    }

    // MARK: Apple

    private mutating func lookAtApple() async {
        let endpoint = configuration.apple.keysEndpoint
        let host = endpoint.host() ?? ""
        do {
            let addresses = try HostAddress.addresses(of: host)
            findings.append(Finding(.note, "\(host.printable) is \(addresses.map(\.printable).joined(separator: ", "))"))
        } catch {
            unanswered += 1
            findings.append(Finding(.degraded, "\(host.printable): \(error)", remedy: "this host needs DNS"))
            return
        }
        do {
            let keys = try await SigningKeySet(from: endpoint.absoluteString, over: transport)
            if endpoint.scheme == "https" { findings.append(Finding(.note, "TLS: the certificate of \(host.printable) is valid")) }
            findings.append(Finding(.note, "Apple publishes \(keys.count.counted("signing key"))"))
        } catch {
            unanswered += 1
            findings.append(Self.finding(of: error, host))
            return
        }
        findings.append(ofClock)
    }

    private static func finding(of error: any Error, _ host: String) -> Finding {
        guard let failure = error as? TransportFailure else {
            return Finding(.degraded, "Apple publishes no usable signing keys: \(error)")
        }
        let sentence = "no answer came from \(host.printable): \(failure.words)"
        guard failure == .tls else { return Finding(.degraded, sentence, remedy: "siwatch needs port 443 outwards") }
        return Finding(.degraded, "\(sentence); CA certificates are missing, or a proxy answers", remedy: failure.remedy(at: host))
    }

    private var ofClock: Finding {
        guard let skew = skew.withLockedValue({ $0 }) else {
            return Finding(.degraded, "Apple's answer did not tell the time, so this clock was not compared")
        }
        let sentence = StatusReport.sentence(skew: skew)
        let isRight = abs(skew) <= ClockTrust.noticedSkew.milliseconds
        return isRight ? Finding(.note, sentence) : Finding(.degraded, sentence, remedy: "put NTP right")
    }

    // MARK: Clients

    private mutating func prove(_ keys: [String: [ClientSecretKey]]) async {
        for app in configuration.apps {
            var answers: [(clientID: String, answer: EndpointAnswer<ClientNews>)] = []
            for clientID in app.clientIDs {
                answers.append((clientID, await ask(clientID, of: app.teamID, with: keys[app.name]![0])))
            }
            let accepted = answers.first { $0.answer.verdict.verdict == .accepted }?.clientID
            for (clientID, answer) in answers {
                let (verdict, words) = answer.verdict
                let signed = "the key \(app.keys[0].id) of the team \(app.teamID)"
                switch verdict {
                case .accepted: findings.append(Finding(.note, "Apple accepts \(clientID.printable) with \(signed)"))
                case .unanswered:
                    unanswered += 1
                    let sentence = "Apple gave no usable answer about \(clientID.printable): \((words ?? "").printable)"
                    findings.append(Finding(.degraded, sentence, remedy: "ask again later"))
                case .refused:
                    let diagnosis = ClientDiagnosis(
                        app: app,
                        clientID: clientID,
                        words: words ?? "",
                        accepted: accepted,
                        elsewhere: await elsewhere(clientID, of: app, isKeyProved: accepted != nil, keys)
                    )
                    findings.append(diagnosis.finding)
                }
            }
        }
    }

    /// Whether Apple accepts a refused client with the key of another app, or the key with another app's client.
    private func elsewhere(
        _ clientID: String,
        of app: Configuration.App,
        isKeyProved: Bool,
        _ keys: [String: [ClientSecretKey]]
    ) async -> ClientDiagnosis.Elsewhere? {
        for other in configuration.apps where other.name != app.name {
            let otherKey = keys[other.name]![0]
            let answer = await ask(clientID, of: other.teamID, with: otherKey)
            if answer.verdict.verdict == .accepted { return .client(app: other.name, teamID: other.teamID, keyID: otherKey.id) }
            guard !isKeyProved, let known = other.clientIDs.first else { continue }
            let keyAnswer = await ask(known, of: other.teamID, with: keys[app.name]![0])
            if keyAnswer.verdict.verdict == .accepted { return .key(app: other.name, teamID: other.teamID, clientID: known) }
        }
        return nil
    }

    private func ask(_ clientID: String, of teamID: String, with key: ClientSecretKey) async -> EndpointAnswer<ClientNews> {
        let appleClock = clock.showing { [clock, skew] in clock.now.advanced(by: .milliseconds(skew.withLockedValue { $0 } ?? 0)) }
        let endpoint = AppleTokenEndpoint(
            url: configuration.apple.tokenEndpoint.absoluteString,
            revocationURL: configuration.apple.revocationEndpoint.absoluteString,
            secrets: ClientSecrets(teamID: teamID, key: key, clock: appleClock),
            transport: transport,
            clock: clock
        )
        return await endpoint.prove(clientID).answer
    }

    // MARK: The end

    /// Unusable if Apple refuses a client, else unavailable if Apple gave no usable answer; otherwise nil.
    var failure: CommandFailure? {
        let wrong = findings.filter { $0.severity == .down }.count
        if wrong > 0 { return .unusable(["Apple refuses \(wrong.counted("client")) of this configuration"]) }
        return unanswered > 0 ? .unavailable("Apple gave no usable answer, so nothing is proved wrong; ask again later") : nil
    }

    static let leftToSignIns = [
        "Only a sign-in proves that",
        "  each client id is the right one of the two: an app's code belongs to its bundle id, a website's or Android's to the Services ID",
        "  redirect_uri is registered at Apple",
        "  Apple accepts the refresh tokens of the client",
        "Only a notification proves that Apple's come through; siwatch doctor --intake URL looks at the way.",
    ]
}

/// Why Apple refuses a client. Apple answers `invalid_client` to every mistake in key, team and client id, so the mistake follows from what
/// Apple accepts instead.
struct ClientDiagnosis {
    var app: Configuration.App
    var clientID: String
    var words: String
    /// Another client of the app that Apple accepts with the same key.
    var accepted: String?
    /// What Apple accepts of another app's.
    var elsewhere: Elsewhere?

    enum Elsewhere: Equatable {
        /// The key, with the team and a client of that app.
        case key(app: String, teamID: String, clientID: String)
        /// The client, with the team and the key of that app.
        case client(app: String, teamID: String, keyID: String)
    }

    var finding: Finding {
        let refused = "Apple refuses \(clientID.printable) with the key \(key.id) of the team \(app.teamID) (\(words.printable))"
        return Finding(.down, "\(refused)\(cause.words)", remedy: cause.remedy)
    }

    private var cause: (words: String, remedy: String) {
        switch elsewhere {
        case .key(let other, let teamID, let known):
            let owner = teamID == app.teamID ? "the app group" : "the team \(teamID)"
            let proof = "because Apple accepts \(known.printable) with it"
            let remedy = "give the app \(app.name.printable) a key of its own: id and file below [[app.key]]"
            return (": this key belongs to \(owner) of the app \(other.printable), \(proof)", remedy)
        case .client(let other, let teamID, let keyID):
            let remedy = "move it to the client_ids of the app \(other.printable)"
            return (", and accepts it with the key \(keyID) of the team \(teamID)", remedy)
        case nil: break
        }
        if app.teamID == key.id { return (": team_id has the id of the key", "write the Team ID, as Membership at Apple shows it") }
        if let accepted {
            let remedy =
                "compare it letter by letter with Identifiers at Apple: a bundle id for an app, a Services ID for a website or "
                + "Android; Sign in with Apple has to be enabled for it, in one group with \(accepted.printable)"
            return (", and accepts \(accepted.printable) with the same key: the client id is wrong", remedy)
        }
        if let match = key.file.firstMatch(of: /AuthKey_([A-Z0-9]{10})\.p8$/), match.1 != key.id {
            return (": the file is named for the key \(match.1)", "put id or file right below [[app.key]]")
        }
        let remedy =
            "compare at Apple: Keys has \(key.id), not revoked, with Sign in with Apple for the primary App ID of this client; "
            + "Membership shows the team; Identifiers has the client id, which may take two days to count when it is new"
        return (", and no other client of the app shows which of the three is wrong", remedy)
    }

    private var key: Configuration.App.Key { app.keys[0] }
}
