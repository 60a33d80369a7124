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
        try Symptom.conclude(await symptoms())
    }

    private func symptoms() async -> [Symptom] {
        let configuration: Configuration
        do {
            configuration = try options.readConfiguration(opensDatabase: false)
        } catch {
            let mistakes = error.messages.map { Symptom(.wrong, $0) }
            return mistakes + (await ofDaemon()).filter { !error.messages.contains($0.sentence) }
        }
        var symptoms = await ofConfiguration(configuration)
        let isBroken = symptoms.contains { $0.verdict == .wrong }
        // A daemon's good word may be older than what is wrong, and a bad one names the cause again.
        let said = await ofDaemon().filter { !isBroken || $0.verdict > .ok }
        symptoms.removeAll { symptom in said.contains { $0.sentence.hasSuffix(symptom.sentence) } }
        if let backend { symptoms += ofBackend(backend, configuration) }
        symptoms += said
        if let user { symptoms += await ofUser(user, configuration) }
        return symptoms
    }

    private func ofConfiguration(_ configuration: Configuration) async -> [Symptom] {
        var symptoms = configuration.warnings.map { Symptom(.warning, "\(configuration.source): \($0)") }
        do {
            let keys = try Keys(configuration)
            let database = try configuration.namedDatabase()
            // What is wrong with the database stands below, and what only its user may look at.
            if (try? options.refuseRoot(on: database)) != nil, let store = try? database.openForReading() {
                try await store.closing { try keys.check($0, of: configuration) }
            }
            symptoms.append(Symptom(.ok, "\(configuration.source) and the keys that it names are good"))
        } catch {
            symptoms += Symptom.all(of: error)
        }
        do {
            let database = try configuration.namedDatabase()
            if let user = database.userInPlaceOfRoot {
                symptoms.append(Symptom(.warning, "root may read and write what \(user) may not", "sudo -u \(user) siwatch doctor"))
            }
            let server = try database.examineServer(clockSkew: configuration.queues.clockSkew)
            symptoms += server.warnings.map { Symptom(.warning, $0) }
            let obstacles = database.obstacles(besideKey: configuration.encryption.keyFile) + server.obstacles
            symptoms += obstacles.map { Symptom(.wrong, $0) }
        } catch {
            symptoms += Symptom.all(of: error)
        }
        return symptoms
    }

    private func ofBackend(_ name: String, _ configuration: Configuration) -> [Symptom] {
        guard configuration.database.url == nil, let path = try? configuration.namedDatabase().name else {
            return [Symptom(.warning, "--as is about files; on a server the rights of each role stand below")]
        }
        guard let access = BackendAccess(user: name) else { return [Symptom(.wrong, "this host knows no user \(name.printable)")] }
        if let obstacle = access.obstacle(to: path) { return [Symptom(.wrong, obstacle.sentence, obstacle.remedy)] }
        return [Symptom(.ok, "\(name.printable) can write the database")]
    }

    /// What the daemon says, else what the tables say.
    private func ofDaemon() async -> [Symptom] {
        do {
            let said = try await StatusSaid(options)
            let troubles = said.findings.filter { $0.severity > .note }.map { finding in
                Symptom(finding.severity == .down ? .wrong : .warning, finding.sentence, finding.advice)
            }
            return troubles.isEmpty ? [Symptom(.ok, "siwatch works, backends can insert, Apple answers, and nothing is late")] : troubles
        } catch {
            return Symptom.all(of: error)
        }
    }

    private func ofUser(_ user: String, _ configuration: Configuration) async -> [Symptom] {
        do {
            try options.refuseRoot(on: try configuration.namedDatabase())
            guard let explanation = try await Explain.explanation(of: user, in: configuration) else {
                let advice = "look in the backend's log for the INSERT or the POST, and compare the sub with that of the id_token"
                return [Symptom(.wrong, "no backend has told siwatch of the user \(user.printable)", advice)]
            }
            let unbelieved = explanation.unbelieved.map { [Symptom(.warning, $0.sentence, $0.remedy)] } ?? []
            return [Symptom(.ok, "siwatch knows the user:\n\(explanation.text)")] + unbelieved
        } catch {
            return Symptom.all(of: error)
        }
    }
}
