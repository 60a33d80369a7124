// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

enum Version {
    /// What the file `VERSION` says.
    static let current = String(decoding: PackageResources.VERSION.prefix { $0 > 0x20 }, as: UTF8.self)
}

struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Says which siwatch this is.",
        discussion: """
            With --dependencies also each package that it was built from, with its version and commit, and this system's libraries that it \
            loads. The SBOM of a release says more.
            """
    )

    @Flag(help: "List the packages inside.") var dependencies = false

    func run() throws {
        guard dependencies else { return try printOutput(Version.current) }
        try printOutput((["siwatch \(Version.current)"] + Dependencies().lines + [DatabaseLocation.libraries]).joined(separator: "\n"))
    }
}

/// The packages that this program was built from, as SwiftPM has resolved them.
struct Dependencies: Decodable {
    let pins: [Pin]

    struct Pin: Decodable {
        let identity: String
        let state: State
    }

    struct State: Decodable {
        let version: String?
        let revision: String?
    }

    init() throws { self = try JSONDecoder().decode(Self.self, from: Data(PackageResources.dependencies_json)) }

    var lines: [String] {
        pins.map { [$0.identity, $0.state.version, $0.state.revision].compactMap(\.self).joined(separator: " ") }
    }
}
