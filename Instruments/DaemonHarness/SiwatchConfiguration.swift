// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A whole `siwatch.toml` that points siwatch at a simulated Apple.
package enum SiwatchConfiguration {
    /// It ends with `keys_endpoint`, by which a reader knows that it has all of it.
    ///
    /// - Parameters:
    ///   - url: of the simulator.
    ///   - keyFile: of the key that signs client secrets. A relative name begins at the folder of the configuration.
    ///   - tables: the TOML of further tables, by name, such as `["refresh": "interval = \"1s\""]`.
    package static func text(
        apple url: String,
        teamID: String = SimulatedApple.teamID,
        clientIDs: [String],
        keyID: String = SimulatedApple.keyID,
        keyFile: String = SimulatedApple.keyFile,
        _ tables: [String: String]
    ) -> String {
        """
        [[app]]
        name = "example"
        team_id = \(quoted(teamID))
        client_ids = [\(clientIDs.map(quoted).joined(separator: ", "))]
        [[app.key]]
        id = \(quoted(keyID))
        file = \(quoted(keyFile))
        \(tables.filter { $0.key != "apple" }.sorted { $0.key < $1.key }.map { "[\($0.key)]\n\($0.value)\n" }.joined())
        [apple]
        \(tables["apple"] ?? "")
        token_endpoint = "\(url)/auth/token"
        revocation_endpoint = "\(url)/auth/revoke"
        keys_endpoint = "\(url)/auth/keys"
        """
    }

    package static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }
}
