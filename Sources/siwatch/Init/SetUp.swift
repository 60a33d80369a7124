// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What `siwatch init` does with the answers, step by step.
struct SetUp {
    let answers: InitAnswers
    let options: InitOptions
    let owner: FileOwner
    let folder: String
    /// What this run writes, the configuration last.
    let files: [(path: String, text: String)]
    /// Folders that this run makes.
    let folders: [String]
    let asks: Bool

    /// - Throws: `CommandFailure` if the host is not ready for it, or a file stands in the way. Nothing is changed then.
    init(_ answers: InitAnswers, _ options: InitOptions, asks: Bool) throws(CommandFailure) {
        (self.answers, self.options, self.asks) = (answers, options, asks)
        let user = options.serviceUser ?? (geteuid() == 0 ? "siwatch" : Account.user)
        guard let owner = FileOwner(user) else {
            throw .unusable([
                "this host knows no user \(user.printable); the package makes it, and so does sudo systemd-sysusers siwatch.conf"
            ])
        }
        self.owner = owner
        let folder = URL(filePath: options.configurationPath).deletingLastPathComponent().path
        self.folder = folder
        let ofDatabase =
            DatabaseLocation.isAddress(answers.database)
            ? [] : [URL(filePath: answers.database).deletingLastPathComponent().path]
        guard geteuid() != 0 || !ofDatabase.contains(folder) else {
            throw .wrongUsage("backends may write the folder of the database, so the configuration needs another one")
        }
        folders = ([folder] + ofDatabase.filter { $0 != folder }).filter { !FileManager.default.fileExists(atPath: $0) }
        guard !answers.areConfigured else {
            files = []
            return
        }
        // By its name alone, so that a systemd credential of that name can take its place.
        let keyFile = "AuthKey_\(answers.key.id).p8"
        var files = [(path: "\(folder)/\(keyFile)", text: try answers.key.read())]
        let configuration = answers.configuration(keyFile: keyFile)
        if !answers.http.isEmpty { files.append(("\(folder)/\(InitAnswers.tokenFile)", NewSecret.token.make() + "\n")) }
        if !answers.webhook.isEmpty { files.append(("\(folder)/\(InitAnswers.webhookSecretFile)", NewSecret.webhook.make() + "\n")) }
        if let path = answers.passwordFile {
            do {
                files.append(("\(folder)/\(InitAnswers.passwordCopy)", try TextFile.read(path, limit: 4096)))
            } catch {
                throw .failed("\(path.printable) \(error)")
            }
        }
        files.append((options.configurationPath, configuration))
        let inTheWay = files.filter { file in
            // A secret that an earlier run has left is as good as a new one.
            FileManager.default.fileExists(atPath: file.path) && file.path != answers.key.path
                && ![InitAnswers.tokenFile, InitAnswers.webhookSecretFile].contains(URL(filePath: file.path).lastPathComponent)
                && FileManager.default.contents(atPath: file.path) != Data(file.text.utf8)
        }
        guard inTheWay.isEmpty else {
            let names = inTheWay.map(\.path.printable).joined(separator: ", ")
            throw .failed("\(names): there already, with something else in it; siwatch init overwrites nothing")
        }
        self.files = files.filter { !FileManager.default.fileExists(atPath: $0.path) }
        // The answers were checked one by one. This asks whether the whole is a configuration.
        do {
            let table = try ConfigurationTable(parsing: configuration)
            _ = try Configuration(table, from: options.configurationPath)
        } catch let error as InvalidConfiguration {
            throw CommandFailure(error)
        } catch {
            throw .failed("\(error)")
        }
    }

    /// What would be done.
    var plan: Plan {
        Plan(
            configuration: options.configurationPath,
            text: files.last?.text ?? "# \(options.configurationPath) is there, and stays as it is.",
            steps: steps.map(\.name)
        )
    }

    struct Plan: Encodable {
        var configuration: String
        /// Of the configuration.
        var text: String
        var steps: [String]

        var description: String { ([text] + steps.map { "- \($0)" }).joined(separator: "\n") }
    }

    /// What was done.
    struct Report: Encodable {
        var configuration: String
        var steps: [Done] = []
        /// What is left to a person.
        var next: [String] = []

        struct Done: Encodable {
            var name: String
            /// What a program has said. Empty if there is nothing to say.
            var detail: String

            var text: String { detail.isEmpty ? name : "\(name)\n    \(detail.replacing("\n", with: "\n    "))" }
        }
    }

    private struct Step {
        var name: String
        /// - Returns: what to say of it.
        var carryOut: () throws(CommandFailure) -> String
    }

    /// - Parameter tell: is told of each step that has succeeded.
    /// - Throws: `CommandFailure` of the first step that fails. Files of this run are gone if Apple has refused the answers.
    func carryOut(telling tell: (Report.Done) -> Void) throws(CommandFailure) -> Report {
        var report = Report(configuration: options.configurationPath)
        for step in steps {
            let done = Report.Done(name: step.name, detail: try step.carryOut())
            tell(done)
            report.steps.append(done)
        }
        report.next = next
        return report
    }

    private var steps: [Step] {
        var steps: [Step] = []
        if !files.isEmpty || !folders.isEmpty {
            let names = (folders + files.map(\.path)).joined(separator: ", ")
            steps.append(Step(name: "Write \(names)", carryOut: writeFiles))
        }
        let proof = options.offline ? "Check the configuration" : "Ask Apple whether key, team and clients belong together"
        steps.append(Step(name: proof, carryOut: check))
        if DatabaseLocation.isAddress(answers.database) {
            steps.append(Step(name: "Make the tables on the server, and the sealing key", carryOut: migrate))
        } else {
            steps.append(Step(name: "Make the database \(answers.database), and the sealing key", carryOut: migrate))
            if let user = answers.backendUser {
                steps.append(Step(name: "Let \(user) insert", carryOut: { () throws(CommandFailure) in try admit(user) }))
            }
        }
        if isInstalled {
            steps.append(Step(name: "Start siwatch, now and at each boot", carryOut: start))
        }
        return steps
    }
}
