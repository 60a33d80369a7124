// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialMonitor
import SQLiteStore

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Looks at configuration, keys, database and daemon, or for one user, and says what mends what is wrong. Changes nothing.",
        discussion: """
            Each line begins with ok, warning or wrong. The exit code is 0 if all are ok, 1 for a warning, 2 if something is wrong.

            --before-start leaves the daemon out, for a new or changed configuration. The exit code is that of a start: 0 if siwatch would \
            start, with warnings too, 69 if a server is away, and 78 after one line for each mistake. With --online it is 78 also if Apple \
            refuses a client, and 69 if Apple gives no usable answer.

            --online looks at the way to Apple and at the clock, and asks Apple about each client: whether its id, the team and the key belong \
            together. That touches no user.

            --intake looks at nothing else. It posts to the URL as Apple would: it looks at the name, the certificate, redirects and the path, \
            and whether a forgery is refused, which leaves a sample in the quarantine. Where the configuration and the sealing key can be read, \
            it also sees whether the request comes to a siwatch with that key. Run it on another host too: Apple comes from outside.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Apple's `sub` of the user who does not appear.") var user: String?
    @Flag(help: "Only whether siwatch would start: leave the daemon out.") var beforeStart = false
    @Flag(help: "Ask Apple, too, whether each client id, the team and the key belong together.") var online = false
    @Option(
        help: ArgumentHelp(
            "Only what would keep Apple's notifications away from this URL, such as https://example.com/apple/notifications.",
            valueName: "url"
        )
    )
    var intake: String?
    @Option(
        name: .customLong("as"),
        help: ArgumentHelp(
            "Look too whether this user of the host can write the database. Name the user that a backend runs as.",
            valueName: "user"
        )
    )
    var backend: String?
    @Option(
        help: ArgumentHelp(
            "Only insert a row into each queue of this database file, as a backend does, and take it back. It needs no configuration.",
            valueName: "file"
        ),
        completion: .file()
    )
    var tryInsert: String?

    func run() async throws {
        if let tryInsert {
            do { return try InsertProbe.tryInserts(at: tryInsert) } catch { throw CommandFailure(database: error) }
        }
        if beforeStart { return try await judgeStart() }
        let findings = if let intake { try await IntakeTest(options: options).findings(at: intake) } else { await self.findings() }
        try tell(findings)
        try findings.conclude()
    }

    private func judgeStart() async throws {
        let configuration = try options.readConfiguration(opensDatabase: false)
        // Root's rights say nothing of the owner's. Where it cannot be left, a finding says so.
        if let database = try? configuration.namedDatabase() { try? options.leaveRoot(on: database) }
        let examination = await Examination(configuration)
        if let failure = examination.failure { throw failure }
        guard examination.mistakes.isEmpty else { throw CommandFailure.unusable(examination.mistakes) }
        let atApple = online ? await OnlineCheck(configuration, examination.keys?.clientSecretKeys) : nil
        try tell(examination.findings + (atApple?.findings ?? []))
        if let failure = atApple?.failure { throw failure }
    }

    private func tell(_ findings: [Finding]) throws {
        try printOutput((findings.map(\.judged) + (online ? OnlineCheck.leftToSignIns : [])).joined(separator: "\n"))
    }

    private func findings() async -> [Finding] {
        let configuration: Configuration
        do {
            configuration = try options.readConfiguration(opensDatabase: false)
        } catch {
            let mistakes = error.messages.map { Finding(.down, $0) }
            return mistakes + (await ofDaemon()).filter { !error.messages.contains($0.sentence) }
        }
        if let database = try? configuration.namedDatabase() { try? options.leaveRoot(on: database) }
        let examination = await Examination(configuration) { (try? options.leaveRoot(on: $0)) != nil }
        let mistakes = examination.mistakes + (examination.failure?.messages ?? [])
        var findings = examination.findings + mistakes.map { Finding(.down, $0) }
        // A daemon's good word may be older than what is wrong, and a bad one names the cause again.
        let said = await ofDaemon().filter { mistakes.isEmpty || $0.severity > .note }
        findings.removeAll { finding in said.contains { $0.sentence.hasSuffix(finding.sentence) } }
        if online { findings += await OnlineCheck(configuration, examination.keys?.clientSecretKeys).findings }
        if let backend { findings += ofBackend(backend, configuration) }
        findings += said
        if let user { findings += await ofUser(user, configuration) }
        return findings
    }

    private func ofBackend(_ name: String, _ configuration: Configuration) -> [Finding] {
        guard configuration.database.url == nil, let path = try? configuration.namedDatabase().name else {
            return [Finding(.degraded, "--as is about files; on a server the rights of each role stand below")]
        }
        guard let access = BackendAccess(user: name) else { return [Finding(.down, "this host knows no user \(name.printable)")] }
        if let obstacle = access.obstacle(to: path) { return [Finding(.down, obstacle.sentence, remedy: obstacle.remedy)] }
        return [Finding(.note, "\(name.printable) can write the database")]
    }

    /// What the daemon says, else what the tables say.
    private func ofDaemon() async -> [Finding] {
        do {
            let troubles = try await StatusSaid(options).findings.filter { $0.severity > .note }
            return troubles.isEmpty ? [Finding(.note, "siwatch works, backends can insert, Apple answers, and nothing is late")] : troubles
        } catch {
            return [Finding].all(of: error)
        }
    }

    private func ofUser(_ user: String, _ configuration: Configuration) async -> [Finding] {
        do {
            try options.leaveRoot(on: try configuration.namedDatabase())
            guard let explanation = try await Explain.explanation(of: user, in: configuration) else {
                let advice = "look in the backend's log for the INSERT or the POST, and compare the sub with that of the id_token"
                return [Finding(.down, "no backend has told siwatch of the user \(user.printable)", remedy: advice)]
            }
            let unbelieved = explanation.unbelieved.map { [Finding(.degraded, $0.sentence, remedy: $0.remedy)] } ?? []
            return [Finding(.note, "siwatch knows the user:\n\(explanation.text)")] + unbelieved
        } catch {
            return [Finding].all(of: error)
        }
    }
}
