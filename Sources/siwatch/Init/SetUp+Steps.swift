// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Dispatch
import Foundation

/// The steps, and what they leave to a person.
extension SetUp {
    /// Takes back what it wrote if a file cannot be written.
    func writeFiles() throws(CommandFailure) -> String {
        var written: [String] = []
        do {
            for path in folders {
                let isOwn = path == folder
                try (isOwn ? owner : owner.inBackendGroup).makeFolder(path, mode: isOwn ? 0o750 : 0o2770)
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

    /// This program on the new configuration, as the user that siwatch runs as.
    private func siwatch(_ words: String...) -> HostCommand {
        HostCommand.siwatch(words + ["--config", options.configurationPath], as: owner.user)
    }

    func check() throws(CommandFailure) -> String {
        let local = try siwatch("doctor", "--before-start").run()
        if local.status == 78 { throw takenBack([local.output]) }
        // It is the next step.
        func said(_ output: String) -> String { output.replacing("siwatch migrate creates it", with: "it comes next") }
        guard !options.offline else { return said(local.output) }
        let online = try siwatch("doctor", "--before-start", "--online").run()
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

    func migrate() throws(CommandFailure) -> String {
        let (status, output) = try siwatch("migrate").run()
        if status == 0 { return output }
        // A siwatch at work holds the database, and has brought it up to date when it started.
        let plan = try siwatch("migrate", "--dry-run").run()
        guard status == 69, plan.status == 0, plan.output.contains("is up to date") else { throw .failed(output) }
        return "a siwatch is at work on it"
    }

    /// Lets a backend's user into the group of the database, and tries what its backend will do.
    func admit(_ user: String) throws(CommandFailure) -> String {
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
        _ = try HostCommand.siwatch(["doctor", "--try-insert", answers.database], as: user).succeed()
        return detail
    }

    /// Whether systemd runs here and knows a unit for this configuration.
    var isInstalled: Bool {
        guard geteuid() == 0, options.configurationPath == InitOptions.standardPath,
            FileManager.default.fileExists(atPath: "/run/systemd/system")
        else { return false }
        return (try? HostCommand(words: ["systemctl", "cat", "siwatch.service"]).run().status) == 0
    }

    func start() throws(CommandFailure) -> String {
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
        let health = siwatch("status", "--line")
        var said = try? health.run()
        for _ in 1...10 where said?.status != 0 {
            sleep(1)
            said = try? health.run()
        }
        return said?.status == 0 ? "siwatch works:" : "siwatch runs, but is \(said?.output ?? "silent");"
    }

    var next: [String] {
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
