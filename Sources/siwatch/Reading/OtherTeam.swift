// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

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

extension CredentialReader {
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
