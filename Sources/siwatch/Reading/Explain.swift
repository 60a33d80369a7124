// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import ArgumentParser
import CredentialCore
import CredentialSealing

struct Explain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tells everything that is known of a user, and what follows from it.",
        discussion: """
            Oldest first, by the time at which each became true at Apple, and of each log but that of revocations the newest 1000 rows. It \
            reads the logs from end to end, which takes a while where they are long. It shows the `sub` and the e-mail address; the log of the daemon has neither, \
            only the name that stands here beside the `sub`.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "Apple's `sub` of the user.") var user: String
    @Option(help: ArgumentHelp("Only what concerns this client.", valueName: "id")) var client: String?
    @Flag(help: "Show each notification as Apple signed it.") var jws = false

    func run() async throws {
        let configuration = try options.readConfiguration()
        guard let explanation = try await Self.explanation(of: user, at: client, withMessages: jws, in: configuration) else {
            throw CommandFailure.failed("nothing is known of the user \(user.printable)" + (client.map { " at \($0.printable)" } ?? ""))
        }
        try output.print(explanation, explanation.text)
    }

    /// - Returns: nil if nothing is known of the user.
    static func explanation(
        of user: String,
        at client: String? = nil,
        withMessages: Bool = false,
        in configuration: Configuration
    ) async throws -> Explanation? {
        var (history, quarantined, now) = try await configuration.withStore {
            (
                try await $0.history(of: user, upTo: Explanation.mostRows), try await $0.quarantinedNews(of: user),
                try await FleetMembership.clock(of: $0).now
            )
        }
        history.quarantined = quarantined
        if let client { history = history.limited(toClient: client) }
        guard !history.isEmpty else { return nil }
        if !withMessages { for index in history.notifications.indices { history.notifications[index].payload = nil } }
        return Explanation(of: user, history, pseudonym: pseudonym(of: user, configuration), watching: configuration.clientIDs, at: now)
    }

    /// The user's name in logs. Nil if the sealing key cannot be read.
    private static func pseudonym(of user: String, _ configuration: Configuration) -> String? {
        do {
            guard let ring = try configuration.readKeyRing() else { throw CommandFailure.missingKey(of: configuration) }
            return UserPseudonyms(ring).pseudonym(of: user)
        } catch {
            printError("siwatch: the name in the log needs the sealing key: \(error)")
            return nil
        }
    }
}

extension CredentialReader {
    /// The notifications that Apple signed and siwatch did not believe, and that name a user.
    fileprivate func quarantinedNews(of user: String) async throws -> [QuarantinedNotification] {
        let mention = UserMention(of: user)
        var (found, last): ([QuarantinedNotification], Int64?) = ([], nil)
        repeat {
            let page = try await quarantined(reason: nil, before: last, upTo: 500)
            found += page.filter { RejectionReason(rawValue: $0.reason)?.ring == nil && mention.isFound(in: $0.payload) }
            last = page.last?.id
        } while last != nil
        return found
    }
}
