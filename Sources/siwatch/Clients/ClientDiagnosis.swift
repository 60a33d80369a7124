// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Why Apple refuses a client.
///
/// Apple answers `invalid_client` to every mistake in key, team and client id, and says no more. So the mistake follows from what Apple
/// accepts instead.
struct ClientDiagnosis {
    var app: Configuration.App
    var clientID: String
    /// Apple's.
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

    /// The key that signs.
    private var key: Configuration.App.Key { app.keys[0] }
}
