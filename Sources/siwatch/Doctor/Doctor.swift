// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialMonitor

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Looks for why nothing appears, or nothing of one user, and says what mends it. Changes nothing.",
        discussion:
            "Each line begins with ok, warning or wrong. The exit code is 0 if all are ok, 1 for a warning, 2 if something is wrong."
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Apple's `sub` of the user who does not appear.") var user: String?
    @Option(
        name: .customLong("as"),
        help: ArgumentHelp(
            "Look too whether this user of the host can write the database. Name the user that a backend runs as.",
            valueName: "user"
        )
    )
    var backend: String?

    func run() async throws {
        let findings = await findings()
        try printOutput(findings.map(\.judged).joined(separator: "\n"))
        try findings.conclude()
    }

    private func findings() async -> [Finding] {
        let configuration: Configuration
        do {
            configuration = try options.readConfiguration(opensDatabase: false)
        } catch {
            let mistakes = error.messages.map { Finding(.down, $0) }
            return mistakes + (await ofDaemon()).filter { !error.messages.contains($0.sentence) }
        }
        let examination = await Examination(configuration) { (try? options.refuseRoot(on: $0)) != nil }
        let mistakes = examination.mistakes + (examination.failure?.messages ?? [])
        var findings = examination.findings + mistakes.map { Finding(.down, $0) }
        if mistakes.isEmpty, examination.keys != nil {
            findings.append(Finding(.note, "\(configuration.source) and the keys that it names are good"))
        }
        // A daemon's good word may be older than what is wrong, and a bad one names the cause again.
        let said = await ofDaemon().filter { mistakes.isEmpty || $0.severity > .note }
        findings.removeAll { finding in said.contains { $0.sentence.hasSuffix(finding.sentence) } }
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
            try options.refuseRoot(on: try configuration.namedDatabase())
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
