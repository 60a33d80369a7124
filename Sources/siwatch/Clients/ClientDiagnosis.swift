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
        switch elsewhere {
        case .key(let other, let teamID, let known):
            let owner = teamID == app.teamID ? "the app group" : "the team \(teamID)"
            return Finding(
                .down,
                "\(refused): this key belongs to \(owner) of the app \(other.printable), because Apple accepts \(known.printable) with it",
                remedy: "give the app \(app.name.printable) a key of its own: id and file below [[app.key]]"
            )
        case .client(let other, let teamID, let keyID):
            return Finding(
                .down,
                "\(refused), and accepts it with the key \(keyID) of the team \(teamID)",
                remedy: "move it to the client_ids of the app \(other.printable)"
            )
        case nil: break
        }
        if app.teamID == key.id {
            return Finding(.down, "\(refused): team_id has the id of the key", remedy: "write the Team ID, as Membership at Apple shows it")
        }
        if let accepted {
            return Finding(
                .down,
                "\(refused), and accepts \(accepted.printable) with the same key: the client id is wrong",
                remedy: "compare it letter by letter with Identifiers at Apple: a bundle id for an app, a Services ID for a website or "
                    + "Android; Sign in with Apple has to be enabled for it, in one group with \(accepted.printable)"
            )
        }
        if let named = key.nameOfFile, named != key.id {
            return Finding(.down, "\(refused): the file is named for the key \(named)", remedy: "put id or file right below [[app.key]]")
        }
        return Finding(
            .down,
            "\(refused), and no other client of the app shows which of the three is wrong",
            remedy: "compare at Apple: Keys has \(key.id), not revoked, with Sign in with Apple for the primary App ID of this client; "
                + "Membership shows the team; Identifiers has the client id, which may take two days to count when it is new"
        )
    }

    /// The key that signs.
    private var key: Configuration.App.Key { app.keys[0] }
}

extension Configuration.App.Key {
    /// The key id in the name that Apple gives to the file; nil in another name.
    fileprivate var nameOfFile: String? {
        guard let match = file.firstMatch(of: /AuthKey_([A-Z0-9]{10})\.p8$/) else { return nil }
        return String(match.1)
    }
}
