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

            Each revoked token has the three answers by which its end was proved (a good refresh, the revocation, a rejected refresh), when \
            each was asked for and how Apple dated it, and the key that signed. No token is shown. What is older than \
            retention.revocation_log is gone.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "Apple's `sub` of the user.") var user: String
    @Option(help: ArgumentHelp("Only what concerns this app.", valueName: "name")) var app: String?
    @Option(help: ArgumentHelp("Only what concerns this client.", valueName: "id")) var client: String?
    @Flag(help: "Only the requests to revoke. Of a forgotten user too, if the sealing key can be read.") var receipts = false
    @Flag(help: "Show each notification as Apple signed it.") var jws = false

    func run() async throws {
        let configuration = try options.readConfiguration()
        guard let explanation = try await Self.explanation(of: user, app, client, receipts: receipts, jws: jws, in: configuration) else {
            let place = (app.map { " in \($0.printable)" } ?? "") + (client.map { " at \($0.printable)" } ?? "")
            let subject = receipts ? "no request to revoke" : "nothing"
            throw CommandFailure.failed("\(subject) is known of the user \(user.printable)\(place)")
        }
        try output.print(explanation, explanation.text)
    }

    /// - Returns: nil if nothing is known of the user.
    static func explanation(
        of user: String,
        _ app: String? = nil,
        _ clientID: String? = nil,
        receipts: Bool = false,
        jws: Bool = false,
        in configuration: Configuration
    ) async throws -> Explanation? {
        var (history, name, now) = try await configuration.withStore { store in
            var history = try await receipts ? store.revocations(of: user) : store.history(of: user, upTo: Explanation.mostRows)
            if !receipts {
                history.quarantined = try await store.quarantinedNews(of: user)
            } else if let pseudonym = try? configuration.sealer(of: store).pseudonym(of: user) {
                // The receipts of a forgotten user stand under it.
                history.revocations = try await store.revocations(of: pseudonym).revocations + history.revocations
            }
            if let app { history = history.limited(toClients: Set(try await store.clientIDs(of: app))) }
            return (history, pseudonym(of: user, configuration, store), try await FleetMembership.clock(of: store).now)
        }
        if let clientID { history = history.limited(toClients: [clientID]) }
        guard !history.isEmpty else { return nil }
        if !jws { for index in history.notifications.indices { history.notifications[index].payload = nil } }
        let circumstances = Circumstances(watched: configuration.clientIDs, refusals: history.refusals, now: now)
        return Explanation(of: user, history, pseudonym: name, circumstances, concludes: !receipts)
    }

    /// The user's name in logs. Nil if the sealing key cannot be read.
    private static func pseudonym(of user: String, _ configuration: Configuration, _ store: any CredentialStore) -> String? {
        do {
            return try configuration.sealer(of: store).userPseudonyms.pseudonym(of: user)
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
