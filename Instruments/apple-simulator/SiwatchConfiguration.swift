// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Foundation

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
