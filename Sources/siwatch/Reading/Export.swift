// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import ArgumentParser
import CredentialCore

struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes everything that is kept of a user, as JSON.",
        discussion: """
            For a person who asks under GDPR article 15: every row of every table that names the user, waiting rows and notifications in \
            quarantine among them. Of a token or a code it says only that it is held. It reads the logs from end to end, which takes a while \
            where they are long.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Apple's `sub` of the user.") var user: String
    @Option(help: ArgumentHelp("Only what concerns this app.", valueName: "name")) var app: String?

    func run() async throws {
        let configuration = try options.readConfiguration()
        let (data, now) = try await configuration.withStore { store in
            (try await store.personalData(of: user, in: app), try await FleetMembership.clock(of: store).now)
        }
        guard !data.isEmpty else {
            let place = app.map { " in \($0.printable)" } ?? ""
            throw CommandFailure.failed("nothing is known of the user \(user.printable)\(place)")
        }
        // The names are those of the tables and columns.
        let tables = Dictionary(uniqueKeysWithValues: data.tables.map { ($0.name, $0.rows) })
        try printJSON(["user": user, "app": app, "exportedAt": now.text, "tables": tables] as Members)
    }
}

extension CredentialReader {
    func personalData(of user: String, in app: String?) async throws -> PersonalData {
        let clients: [String]? = if let app { try await clientIDs(of: app) } else { nil }
        let mention = UserMention(of: user, at: clients)
        return try await personalData(of: user, in: app) { mention.isFound(in: $0) }
    }
}

/// As a person is given it: times are ISO 8601.
extension PersonalData.Value: Encodable {
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .absent: try container.encodeNil()
        case .integer(let number): try container.encode(number)
        case .flag(let flag): try container.encode(flag)
        case .text(let text): try container.encode(text)
        case .time(let time): try container.encode(time.text)
        case .held: try container.encode("held")
        }
    }
}
