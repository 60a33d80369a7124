// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import ArgumentParser
import CredentialCore
import CredentialSealing
import Foundation
import Logging
import PostgresStore

/// What `siwatch init` does with the answers.
struct SetUp {
    private let answers: InitAnswers
    private let options: InitOptions
    private let asks: Bool
    /// As the answers make it, or as it is there.
    private let configuration: Configuration
    /// The user that siwatch runs as.
    private let owner: Account.User
    /// Of the configuration.
    private let folder: String

    /// - Throws: if the host is not ready for it, or the answers together make no configuration.
    init(_ answers: InitAnswers, _ options: InitOptions, asks: Bool) throws(CommandFailure) {
        (self.answers, self.options, self.asks) = (answers, options, asks)
        let user = options.serviceUser ?? (geteuid() == 0 ? "siwatch" : Account.user)
        guard let owner = Account.User(user) else {
            throw .unusable([
                "this host knows no user \(user.printable); the package makes it, and so does sudo systemd-sysusers siwatch.conf"
            ])
        }
        self.owner = owner
        folder = options.configurationPath.folder
        do {
            let path = options.configurationPath
            configuration = try answers.configuration ?? Configuration(.parse(answers.text), from: path)
        } catch {
            throw .unusable((error as? InvalidConfiguration)?.lines ?? ["\(error)"])
        }
        guard geteuid() != 0 || answers.isServer || folder != databaseFolder else {
            throw .wrongUsage("backends may write the folder of the database, so the configuration needs another one")
        }
    }

    private var databaseFolder: String { answers.database.folder }

    /// Says what it has done, step by step. A run that was cut short or has failed leaves what it has done, and the next one goes on. If
    /// Apple refuses the answers, nothing is written.
    func carryOut() async throws {
        if asks, answers.configuration == nil, answers.isServer { try askForRoles() }
        if !options.offline { try await prove() }
        try writeFiles()
        try makeTables()
        if !answers.backendUser.isEmpty { try admit(answers.backendUser) }
        let isInstalled = isInstalled
        if isInstalled { try start() }
        try printOutput(next(isInstalled: isInstalled).joined(separator: "\n"))
    }

    @inline(never)
    private func askForRoles() throws(CommandFailure) {
        try printOutput("Let an administrator run this in that database:\n\n\(ServerRoles.script)\n")
        try Terminal.ask("Press Enter when that is done", proposal: "") { _ throws(CommandFailure) in }
    }

    /// Asks Apple about each client, with the key that is not in its place yet.
    private func prove() async throws {
        let known = try answers.configuration.map { try Keys($0).clientSecretKeys }
        let keys = try known ?? [answers.app: [answers.key.read().key]]
        let atApple = await OnlineCheck(configuration, keys)
        try printOutput((atApple.findings.map(\.judged) + OnlineCheck.leftToSignIns).joined(separator: "\n"))
        guard var failure = atApple.failure else { return }
        // Apple may be away. The daemon asks again, and says so.
        if failure.isTransient { return printError("not proved yet: \(failure)", at: .warning) }
        // It may take days until Apple knows a new Services ID.
        if asks, Terminal.confirms("Keep these answers all the same?") == true { return }
        failure.messages.append("if the answers are right, as for a Services ID of today, run it again with --offline")
        throw failure.keeping(answers.asked)
    }

    /// The folders and files that `carryOut` makes, and the text of the configuration.
    func plan() throws(CommandFailure) -> String {
        let path = options.configurationPath
        let text = answers.configuration == nil ? answers.text : "# \(path.printable) is there, and stays as it is."
        return try ([text] + (newFolders + missingFiles().map(\.path)).map { "- Write \($0.printable)" }).joined(separator: "\n")
    }

    private var newFolders: [String] {
        let folders = [folder] + (answers.isServer || databaseFolder == folder ? [] : [databaseFolder])
        return folders.filter { !FileManager.default.fileExists(atPath: $0) }
    }

    private func missingFiles() throws(CommandFailure) -> [(path: String, text: String)] {
        var missing: [(path: String, text: String)] = []
        for file in try answers.configuration == nil ? answers.files(options.configurationPath) : [] {
            if let found = FileManager.default.contents(atPath: file.path) {
                // A secret that an earlier run has left is as good as a new one.
                if file.isSecret || found == Data(file.text.utf8) { continue }
                throw .failed("\(file.path.printable) is there already, with something else in it; siwatch init overwrites nothing")
            }
            missing.append((file.path, file.text))
        }
        return missing
    }

    private func writeFiles() throws(CommandFailure) {
        let missing = try missingFiles()
        for new in newFolders {
            // Backends make files beside the database.
            let isShared = new != folder
            try owner.makeFolder(new, mode: isShared ? 0o2770 : 0o750, group: isShared ? Account.Group.ofBackends?.id : nil)
            try printOutput("\(new.printable) is new.")
        }
        for (path, text) in missing {
            do { try KeyFile.create(text, at: path, owner: (owner.id, owner.groupID)) } catch { throw .failed("\(error)".printable) }
            try printOutput("\(path.printable) is written.")
        }
    }

    private func siwatch(_ words: String...) -> HostCommand {
        HostCommand.siwatch(words + ["--config", options.configurationPath], as: owner.name)
    }

    private func makeTables() throws(CommandFailure) {
        let made = try siwatch("migrate").run()
        let checked = try siwatch("doctor", "--before-start").run()
        // A siwatch at work holds the database, and has brought it up to date when it started.
        guard [0, 69].contains(made.status), checked.status == 0 else {
            let output = checked.status == 0 ? made.output : checked.output
            throw CommandFailure(code: checked.status == 78 ? ExitCode(78) : .failure, messages: [output])
        }
        try printOutput([made.status == 0 ? made.output : "a siwatch is at work on the database", checked.output].joined(separator: "\n"))
    }

    /// Lets a backend's user into the group of the database, and tries what its backend will do.
    private func admit(_ user: String) throws(CommandFailure) {
        // Members of the group choose what stands in that file.
        guard user != "root" || owner.name == "root" else { throw .wrongUsage("root is no user of a backend's") }
        if geteuid() == 0, user != owner.name, let group = groupOfBackends, BackendAccess(user: user)?.isMember(of: group) == false {
            let name = Account.name(ofGroup: group)
            _ = try HostCommand(words: ["usermod", "-aG", name, user]).succeed()
            try printOutput("\(user) is now in the group \(name). Restart its backend, because a process keeps the groups of its start.")
        }
        _ = try HostCommand.siwatch(["doctor", "--try-insert", answers.database], as: user).succeed()
        try printOutput("\(user) can insert.")
    }

    /// The group whose members may write the database: that of backends, or of the file itself. Nil if a link, another user's file or the
    /// group of root stands there.
    private var groupOfBackends: gid_t? {
        if let group = Account.Group.ofBackends { return group.id }
        guard let status = stat(notFollowing: answers.database), status.isRegularFile, status.st_uid == owner.id else { return nil }
        return status.st_gid == 0 ? nil : status.st_gid
    }

    /// Whether systemd runs here and knows a unit for this configuration.
    private var isInstalled: Bool {
        guard geteuid() == 0, options.configurationPath == InitOptions.standardPath,
            FileManager.default.fileExists(atPath: "/run/systemd/system")
        else { return false }
        return (try? HostCommand(words: ["systemctl", "cat", "siwatch.service"]).run().status) == 0
    }

    /// A siwatch at work begins anew: it may be older than the configuration, which this run, an earlier one or a person has written.
    private func start() throws(CommandFailure) {
        do {
            for word in ["enable", "restart"] { _ = try HostCommand(words: ["systemctl", word, "siwatch.service"]).succeed() }
        } catch {
            // systemd names no reason. siwatch's last words do, such as a port that another program has.
            let words = ["journalctl", "--unit=siwatch.service", "--since=-1min", "--output=cat", "--grep=^siwatch: ", "--lines=1"]
            guard let said = try? HostCommand(words: words).run(), said.status == 0, !said.output.isEmpty else { throw error }
            throw .failed("siwatch.service does not start: \(said.output)")
        }
        try printOutput("siwatch.service is started, now and at each boot.")
    }

    /// That siwatch works, or what is wrong once it has had the time for Apple's first answers.
    private var verdict: String {
        var said = try? siwatch("status", "--line").run()
        for _ in 1...10 where said?.status != 0 {
            sleep(1)
            said = try? siwatch("status", "--line").run()
        }
        return said?.status == 0 ? "siwatch works:" : "siwatch runs, but is \(said?.output ?? "silent");"
    }

    private func next(isInstalled: Bool) -> [String] {
        let start = "siwatch run --config \(options.configurationPath.shellQuoted) starts it; then"
        let secrets = [(answers.http, InitAnswers.tokenFile, "token"), (answers.webhook, InitAnswers.webhookSecretFile, "webhook secret")]
            .filter { !$0.0.isEmpty }.map { "\(folder)/\($0.1) is the backend's \($0.2)." }
        let key = "\(folder)/\(Configuration.Encryption().keyFile)"
        let copies = [
            "Copy \(key) to a safe place now: it opens the tokens, and nobody can make it again.",
            "Keep a copy of \(answers.key.path) too: Apple hands it out only once.",
        ]
        let access = "Only siwatch reads these: sudo install -o USER -m 400 FILE COPY makes a copy for your backend, which runs as USER."
        return (answers.configuration == nil ? copies : []) + [
            "\(isInstalled ? verdict : start) http://127.0.0.1:9464/ says how, and so does siwatch status.",
            (secrets + (secrets.isEmpty ? [] : [access]) + ["Connect it: \(Finding.page("quickstart.md"))."]).joined(separator: " "),
        ]
    }
}

extension Account.User {
    /// Makes a new folder of this user's. No link that somebody puts in its place is followed.
    fileprivate func makeFolder(_ path: String, mode: mode_t, group: gid_t?) throws(CommandFailure) {
        guard mkdir(path, 0o700) == 0 else { throw .failed("the folder \(path.printable) cannot be made: \(systemError())") }
        let made = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        defer { if made >= 0 { close(made) } }
        var status = stat()
        guard made >= 0, fstat(made, &status) == 0, status.st_uid == geteuid(), fchown(made, id, group ?? groupID) == 0,
            fchmod(made, mode) == 0
        else { throw .failed("the folder \(path.printable) cannot be given to \(name): \(systemError())") }
    }
}
