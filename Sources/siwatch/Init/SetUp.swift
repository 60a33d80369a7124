// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What `siwatch init` does with the answers, step by step.
struct SetUp {
    private let answers: InitAnswers
    private let options: InitOptions
    private let owner: FileOwner
    private let folder: String
    /// What this run writes, the configuration last.
    private let files: [(path: String, text: String)]
    /// Folders that this run makes.
    private let folders: [String]

    /// - Throws: `CommandFailure` if the host is not ready for it, or a file stands in the way. Nothing is changed then.
    init(_ answers: InitAnswers, _ options: InitOptions) throws(CommandFailure) {
        (self.answers, self.options) = (answers, options)
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
        folders = ([folder] + ofDatabase).filter { !FileManager.default.fileExists(atPath: $0) }
        guard !answers.areConfigured else {
            files = []
            return
        }
        var files = [(path: "\(folder)/AuthKey_\(answers.key.id).p8", text: try answers.key.read())]
        let configuration = answers.configuration(keyFile: files[0].path)
        if !answers.http.isEmpty { files.append(("\(folder)/\(InitAnswers.tokenFile)", NewSecret.httpToken.text + "\n")) }
        if !answers.webhook.isEmpty { files.append(("\(folder)/\(InitAnswers.webhookSecretFile)", NewSecret.webhookSecret.text + "\n")) }
        files.append((options.configurationPath, configuration))
        let inTheWay = files.filter { file in
            FileManager.default.fileExists(atPath: file.path) && file.path != answers.key.path
                && FileManager.default.contents(atPath: file.path) != Data(file.text.utf8)
        }
        guard inTheWay.isEmpty else {
            let names = inTheWay.map(\.path.printable).joined(separator: ", ")
            throw .failed("\(names): there already, with something else in it; siwatch init overwrites nothing")
        }
        self.files = files.filter { !FileManager.default.fileExists(atPath: $0.path) }
        // The answers were checked one by one. This asks whether the whole is a configuration.
        do {
            let table = try TOMLParser().parse(configuration)
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
            if let user = answers.backendUser ?? options.backendUser {
                steps.append(Step(name: "Let \(user) insert", carryOut: { () throws(CommandFailure) in try admit(user) }))
            }
        }
        if isInstalled {
            steps.append(Step(name: "Start siwatch, now and at each boot", carryOut: start))
        }
        return steps
    }

    // MARK: The steps

    private func writeFiles() throws(CommandFailure) -> String {
        do {
            for path in folders {
                if path == folder {
                    try owner.makeFolder(path, mode: 0o750)
                } else {
                    try owner.inBackendGroup.makeFolder(path, mode: 0o2770)
                }
            }
            for file in files { try owner.write(file.text, to: file.path) }
        } catch {
            removeFiles()
            throw error
        }
        let isCopied = files.contains { $0.path.hasSuffix(".p8") }
        return isCopied ? "\(answers.key.path) is no longer needed here. Keep a copy: Apple hands it out only once." : ""
    }

    private func removeFiles() {
        for file in files { unlink(file.path) }
        // A folder that holds something stays.
        for path in folders { rmdir(path) }
    }

    /// Takes back what this run has written if the answers are wrong, so that the next run asks again.
    private func check() throws(CommandFailure) -> String {
        let arguments = ["check", "--config", options.configurationPath] + (options.offline ? [] : ["--online"])
        let (status, output) = try HostCommand.siwatch(arguments, as: owner.user).run()
        switch status {
        case 0: return output
        case 78 where files.isEmpty: throw .unusable([output])
        case 78:
            removeFiles()
            throw .unusable([output, "siwatch init has removed what it wrote; run it again with other answers"])
        // Apple may be away. The daemon asks again, and says so.
        default: return "not proved yet: \(output)"
        }
    }

    private func migrate() throws(CommandFailure) -> String {
        try HostCommand.siwatch(["migrate", "--config", options.configurationPath], as: owner.user).succeed()
    }

    /// Lets a backend's user into the group of the database, and tries what its backend will do.
    private func admit(_ user: String) throws(CommandFailure) -> String {
        var detail = ""
        var status = stat()
        if geteuid() == 0, let access = BackendAccess(user: user), access.isStranger(to: answers.database),
            stat(answers.database, &status) == 0
        {
            let group = Account.name(ofGroup: status.st_gid)
            _ = try HostCommand(words: ["usermod", "-aG", group, user]).succeed()
            detail = "\(user) is now in the group \(group). Restart its backend, because a process keeps the groups of its start."
        }
        _ = try HostCommand.siwatch(["try-insert", answers.database], as: user).succeed()
        return detail
    }

    /// Whether systemd runs here and knows a unit for this configuration.
    private var isInstalled: Bool {
        guard geteuid() == 0, options.configurationPath == InitOptions.standardPath,
            FileManager.default.fileExists(atPath: "/run/systemd/system")
        else { return false }
        return (try? HostCommand(words: ["systemctl", "cat", "siwatch.service"]).run().status) == 0
    }

    private func start() throws(CommandFailure) -> String {
        _ = try HostCommand(words: ["systemctl", "enable", "--now", "siwatch.service"]).succeed()
        return ""
    }

    private var next: [String] {
        let start = "siwatch run --config \(options.configurationPath.shellQuoted) starts it; then"
        let secrets = [(answers.http, InitAnswers.tokenFile, "token"), (answers.webhook, InitAnswers.webhookSecretFile, "webhook secret")]
            .filter { !$0.0.isEmpty }.map { "\(folder)/\($0.1) is the backend's \($0.2)." }
        let key = "\(folder)/\(Configuration.Encryption().keyFile)"
        return (answers.areConfigured ? [] : ["Copy \(key) to a safe place now: it opens the tokens, and nobody can make it again."]) + [
            "\(isInstalled ? "siwatch works:" : start) http://127.0.0.1:9464/ says how, and so does siwatch status.",
            (secrets + ["Connect it: \(Finding.page("quickstart.md"))."]).joined(separator: " "),
        ]
    }
}
