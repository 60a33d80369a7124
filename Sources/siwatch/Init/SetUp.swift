// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Dispatch
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
    private let asks: Bool

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
        if !answers.http.isEmpty { files.append(("\(folder)/\(InitAnswers.tokenFile)", NewSecret.httpToken.text + "\n")) }
        if !answers.webhook.isEmpty { files.append(("\(folder)/\(InitAnswers.webhookSecretFile)", NewSecret.webhookSecret.text + "\n")) }
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

    // MARK: The steps

    /// Takes back what it wrote if a file cannot be written.
    private func writeFiles() throws(CommandFailure) -> String {
        var written: [String] = []
        do {
            for path in folders {
                if path == folder {
                    try owner.makeFolder(path, mode: 0o750)
                } else {
                    try owner.inBackendGroup.makeFolder(path, mode: 0o2770)
                }
            }
            for file in files {
                try owner.write(file.text, to: file.path)
                written.append(file.path)
            }
        } catch {
            remove(written)
            throw error
        }
        return ""
    }

    /// Takes back what this run has written, so that the next one asks again. Apple's key stays: there may be no other copy.
    private func remove(_ paths: [String]) {
        for path in paths where !path.hasSuffix(".p8") { unlink(path) }
        // A folder that holds something stays.
        for path in folders { rmdir(path) }
    }

    private func check() throws(CommandFailure) -> String {
        let local = try HostCommand.siwatch(["check", "--config", options.configurationPath], as: owner.user).run()
        if local.status == 78 { throw takenBack([local.output]) }
        // It is the next step.
        func said(_ output: String) -> String { output.replacing("siwatch migrate creates it", with: "it comes next") }
        guard !options.offline else { return said(local.output) }
        let online = try HostCommand.siwatch(["check", "--online", "--config", options.configurationPath], as: owner.user).run()
        let (status, output) = (online.status, said(online.output))
        switch status {
        case 0: return output
        case 78:
            if isKept(output) { return "not proved: \(output)" }
            throw takenBack([output, "if the answers are right, as for a Services ID of today, run it again with --offline"])
        // Apple may be away. The daemon asks again, and says so.
        default: return "not proved yet: \(output)"
        }
    }

    /// Whether a person keeps answers that Apple refuses. It may take days until Apple knows a new Services ID.
    private func isKept(_ output: String) -> Bool {
        guard asks else { return false }
        printError(output)
        return Terminal.confirms("Keep these answers all the same?") == true
    }

    private func takenBack(_ reasons: [String]) -> CommandFailure {
        guard !files.isEmpty else { return .unusable(reasons) }
        remove(files.map(\.path))
        return .unusable(reasons + ["siwatch init has removed what it wrote, but not Apple's key; run it again with other answers"])
    }

    private func migrate() throws(CommandFailure) -> String {
        let arguments = ["migrate", "--config", options.configurationPath]
        let (status, output) = try HostCommand.siwatch(arguments, as: owner.user).run()
        if status == 0 { return output }
        // A siwatch at work holds the database, and has brought it up to date when it started.
        let plan = try HostCommand.siwatch(arguments + ["--dry-run"], as: owner.user).run()
        guard status == 69, plan.status == 0, plan.output.contains("is up to date") else { throw .failed(output) }
        return "a siwatch is at work on it"
    }

    /// Lets a backend's user into the group of the database, and tries what its backend will do.
    private func admit(_ user: String) throws(CommandFailure) -> String {
        var detail = ""
        // Members of the group choose what stands in that file.
        guard user != "root" || owner.user == "root" else { throw .wrongUsage("root is no user of a backend's") }
        if geteuid() == 0, user != owner.user, let group = owner.groupOfBackends(at: answers.database),
            BackendAccess(user: user)?.isMember(of: group) == false
        {
            let name = Account.name(ofGroup: group)
            _ = try HostCommand(words: ["usermod", "-aG", name, user]).succeed()
            detail = "\(user) is now in the group \(name). Restart its backend, because a process keeps the groups of its start."
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
        do {
            _ = try HostCommand(words: ["systemctl", "enable", "--now", "siwatch.service"]).succeed()
            guard runsOnOlderFile else { return "" }
            _ = try HostCommand(words: ["systemctl", "restart", "siwatch.service"]).succeed()
            return "restarted, because it had begun before \(options.configurationPath) was last written"
        } catch {
            // systemd names no reason. siwatch's last words do, such as a port that another program has.
            let words = ["journalctl", "--unit=siwatch.service", "--since=-1min", "--output=cat", "--grep=^siwatch: ", "--lines=1"]
            guard let said = try? HostCommand(words: words).run(), said.status == 0, !said.output.isEmpty else { throw error }
            throw .failed("siwatch.service does not start: \(said.output)")
        }
    }

    private var runsOnOlderFile: Bool {
        let words = ["systemctl", "show", "--property=ExecMainStartTimestampMonotonic", "--value", "siwatch.service"]
        guard let said = try? HostCommand(words: words).run(), let start = Double(said.output),
            let written = try? FileManager.default.attributesOfItem(atPath: options.configurationPath)[.modificationDate] as? Date
        else { return false }
        let age = Double(DispatchTime.now().uptimeNanoseconds) / 1_000_000_000 - start / 1_000_000
        return age > -written.timeIntervalSinceNow
    }

    /// That siwatch works, or what is wrong once it has had the time for Apple's first answers.
    private var verdict: String {
        let health = HostCommand.siwatch(["health", "--config", options.configurationPath], as: owner.user)
        var said = try? health.run()
        for _ in 1...10 where said?.status != 0 {
            sleep(1)
            said = try? health.run()
        }
        return said?.status == 0 ? "siwatch works:" : "siwatch runs, but is \(said?.output ?? "silent");"
    }

    private var next: [String] {
        let start = "siwatch run --config \(options.configurationPath.shellQuoted) starts it; then"
        let secrets = [(answers.http, InitAnswers.tokenFile, "token"), (answers.webhook, InitAnswers.webhookSecretFile, "webhook secret")]
            .filter { !$0.0.isEmpty }.map { "\(folder)/\($0.1) is the backend's \($0.2)." }
        let key = "\(folder)/\(Configuration.Encryption().keyFile)"
        let copies = [
            "Copy \(key) to a safe place now: it opens the tokens, and nobody can make it again.",
            "Keep a copy of \(answers.key.path) too: Apple hands it out only once.",
        ]
        let access = "Only siwatch reads these: sudo install -o USER -m 400 FILE COPY makes a copy for your backend, which runs as USER."
        return (answers.areConfigured ? [] : copies) + [
            "\(isInstalled ? verdict : start) http://127.0.0.1:9464/ says how, and so does siwatch status.",
            (secrets + (secrets.isEmpty ? [] : [access]) + ["Connect it: \(Finding.page("quickstart.md"))."]).joined(separator: " "),
        ]
    }
}
