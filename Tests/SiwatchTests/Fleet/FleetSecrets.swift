// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// What may stand nowhere but in its place: tokens and codes, what is signed, and keys.
struct FleetSecrets: Sendable {
    /// Their base64, line by line.
    private let keys: [String]

    /// - Parameter site: which is migrated, so that its keys are made.
    init(of site: Site) throws {
        let files = try FileManager.default.contentsOfDirectory(at: site.folder.url, includingPropertiesForKeys: nil)
        keys = try files.filter { ["p8", "key"].contains($0.pathExtension) }.flatMap { file in
            try String(contentsOf: file, encoding: .utf8).split { $0.isNewline || $0 == ":" }.filter { $0.count >= 40 }.map(String.init)
        }
        guard keys.count >= 2 else { throw HarnessError("no keys: \(files.map(\.lastPathComponent))") }
    }

    /// Client secrets, identity tokens and notifications begin alike: with `{"` in base64.
    func areIn(_ text: String) -> Bool {
        text.contains("eyJ") || keys.contains(where: text.contains) || text.contains(".0.") && Array(text.utf8).holdsSimulatedToken
    }
}
