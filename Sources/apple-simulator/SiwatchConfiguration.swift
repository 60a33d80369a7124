// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulation

/// The part of a `siwatch.toml` that points siwatch at this simulator.
enum SiwatchConfiguration {
    static func text(baseURL: String, group: AppGroup, keyID: String, keyFile: String) -> String {
        """
        [apple]
        token_endpoint = "\(baseURL)/auth/token"
        revocation_endpoint = "\(baseURL)/auth/revoke"
        keys_endpoint = "\(baseURL)/auth/keys"

        [[app]]
        name = "example"
        team_id = "\(group.teamID)"
        client_ids = [\(group.clientIDs.map { "\"\($0)\"" }.joined(separator: ", "))]

        [[app.key]]
        id = "\(keyID)"
        file = "\(keyFile)"
        """
    }
}
