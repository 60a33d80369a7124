// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What the tables say of the apps and clients of a configuration.
extension CredentialReader {
    /// - Throws: `CommandFailure` if the database knows no such app.
    func demand(_ app: String) async throws {
        let apps = try await apps().map(\.app)
        guard apps.contains(app) else { throw CommandFailure(.unknownApp(known: apps), to: .recheckApp(app)) }
    }

    /// The clients that the configuration does not name, and of whose tokens some wait for a check. Nobody asks Apple about them.
    func clientsThatLeft(_ configuration: Configuration) async throws -> [ClientStatus] {
        var left: [ClientStatus] = []
        for client in try await clients() where !configuration.clientIDs.contains(client.clientID) {
            if try await hasScheduledCredentials(clientID: client.clientID) { left.append(client) }
        }
        return left
    }

    /// The configured clients that Apple refuses. siwatch no longer asks for other clients.
    func refusedClients(of configuration: Configuration, at now: Timestamp) async throws -> [RefusedClient] {
        let configured = configuration.clientIDs
        return try await refusedClients(at: now, upTo: RefusedClient.mostCounted).filter { configured.contains($0.clientID) }
    }

    /// How many checks of each app are a minute late or more, counted up to a limit. A shorter wait is a wait for a permit.
    func overdueChecks(at now: Timestamp) async throws -> [String: Int] {
        try await overdueCredentials(before: now.advanced(by: .minutes(-1)), upTo: mostOverdueCounted)
    }

    func unknownCanaries(of configuration: Configuration) async throws -> [UnknownCanary] {
        var unknown: [UnknownCanary] = []
        for app in configuration.apps {
            unknown += try await unknownCanaries(app.canaries, of: app.name).map { UnknownCanary(app: app.name, userID: $0) }
        }
        return unknown
    }

    func otherTeams(than configuration: Configuration) async throws -> [OtherTeam] {
        var found: [OtherTeam] = []
        for app in configuration.apps {
            let teams = try await tokens(of: app.name, fromTeamsBesides: app.teamID, upTo: OtherTeam.mostCounted)
            for (team, tokens) in teams.sorted(by: { $0.key < $1.key }) {
                found.append(OtherTeam(app: app.name, teamID: app.teamID, oldTeamID: team, tokens: min(tokens, OtherTeam.mostCounted)))
            }
        }
        return found
    }
}

/// The limit for one app.
let mostOverdueCounted = 100_000

/// A canary without a token that Apple could be asked about.
struct UnknownCanary: Encodable, CustomStringConvertible {
    var app: String
    var userID: String

    var description: String { "the canary \(userID.printable) of \(app.printable) has no token that Apple could be asked about" }
}

/// Tokens of an app that Apple has accepted from a team that the configuration does not name. The app has changed hands, or `team_id` is
/// wrong.
struct OtherTeam: Encodable, CustomStringConvertible {
    var app: String
    /// The team in the configuration.
    var teamID: String
    /// The team from which Apple accepted the tokens.
    var oldTeamID: String
    /// Counted up to `mostCounted`.
    var tokens: Int

    static let mostCounted = 1000

    var description: String {
        let number = tokens < Self.mostCounted ? "\(tokens)" : "\(tokens) or more"
        return """
            \(app.printable): Apple has accepted \(number) tokens from team \(oldTeamID.printable), and the configuration names \
            \(teamID.printable): no rejection of theirs is believed. If team_id is wrong, put it right; if the app has changed \
            hands, their users have to sign in again
            """
    }
}
