// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// Secrets that must stay in their place: tokens, codes, signed texts and keys.
struct FleetSecrets: Sendable {
    /// The keys' base64, line by line.
    private let keys: [String]

    /// - Parameter site: a migrated site, whose keys exist.
    init(of site: Site) throws {
        let files = try FileManager.default.contentsOfDirectory(at: site.folder.url, includingPropertiesForKeys: nil)
        keys = try files.filter { ["p8", "key"].contains($0.pathExtension) }.flatMap { file in
            try String(contentsOf: file, encoding: .utf8).split { $0.isNewline || $0 == ":" }.filter { $0.count >= 40 }.map(String.init)
        }
        guard keys.count >= 2 else { throw HarnessError("no keys: \(files.map(\.lastPathComponent))") }
    }

    /// Client secrets, identity tokens and notifications all begin with `{"` in base64. A `jti` is shorter.
    func areIn(_ text: String) -> Bool {
        text.contains("eyJ") && text.contains(/eyJ[\w-]{24}/) || hasKey(text)
            || text.contains(".0.") && Array(text.utf8).holdsSimulatedToken
    }

    func hasKey(_ text: String) -> Bool { keys.contains(where: text.contains) }
}
