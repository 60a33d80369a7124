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

    func clientIDs(of app: String) async throws -> [String] {
        try await demand(app)
        return try await clients().filter { $0.app == app }.map(\.clientID)
    }

    func overview(of configuration: Configuration, at now: Timestamp, knowing backlog: Overview.Backlog? = nil) async throws -> Overview {
        var question = Overview.Question(at: now, backlog: backlog)
        for app in configuration.apps { (question.teams[app.name], question.canaries[app.name]) = (app.teamID, app.canaries) }
        var overview = try await overview(question)
        // siwatch no longer asks for other clients.
        overview.refusedClients.removeAll { !configuration.clientIDs.contains($0.clientID) }
        overview.rejectedSignIns.removeAll { !configuration.clientIDs.contains($0.clientID) }
        return overview
    }
}

extension Overview {
    /// The clients that the configuration does not name, and of whose tokens some wait for a check. Nobody asks Apple about them.
    func clientsThatLeft(_ configuration: Configuration) -> [ClientStatus] {
        clients.filter { $0.isScheduled && !configuration.clientIDs.contains($0.clientID) }
    }
}

extension AppUserID {
    var asUnknownCanary: String { "the canary \(userID.printable) of \(app.printable) has no token that Apple could be asked about" }
}

extension OtherTeam: CustomStringConvertible {
    package var description: String {
        let number = tokens < Overview.mostTokens ? "\(tokens)" : "\(tokens) or more"
        return """
            \(app.printable): Apple has accepted \(number) tokens from team \(oldTeamID.printable), and the configuration names \
            \(teamID.printable): no rejection of theirs is believed. If team_id is wrong, put it right; if the app has changed \
            hands, their users have to sign in again
            """
    }
}
