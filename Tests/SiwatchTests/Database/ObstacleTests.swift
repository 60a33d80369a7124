// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// `doctor --before-start` reports every obstacle between `run` and its database, with the command that removes it.
struct ObstacleTests {
    @Test(.site, .enabled(if: Servant.canBeRun), arguments: ["siwatch.sqlite", "siwatch.sqlite.lock", ""])
    func whatCannotBeWrittenIsSaidWithTheCommandThatMendsIt(name: String) async throws {
        let path = name.isEmpty ? site.folder.url.path : site.folder.url.appending(path: name).path
        try Servant.take(over: site.folder)
        #expect(try await Servant.run("doctor", "--before-start", in: site.folder).status == 0)
        try Servant.lose(path)
        for command in ["doctor --before-start", "run", "migrate"] {
            let (status, output) = try await Servant.run(line: command, in: site.folder)
            let text = output.joined(separator: "\n")
            #expect(status == 78 && output.count == 1, "\(command): \(text)")
            #expect(text.contains("siwatch: database.path: \(path) cannot be written by the user "), "\(command): \(text)")
        }
        let sentence = try await Servant.run("doctor", "--before-start", in: site.folder).output.joined()
        let command = try #require(sentence.firstMatch(of: /; (sudo .*) mends it$/)?.1)
        #expect(!command.contains("*") && (name.isEmpty || command.contains("chown -h") || !Servant.isRoot), "\(command)")
        let asRoot = String(command).replacing(/sudo (-u \S+ )?/, with: "")
        let shell = try ChildProcess(URL(filePath: "/bin/sh"), ["-c", asRoot])
        #expect(await shell.exit() == 0, "\(command): \(shell.output)")
        for command in ["doctor --before-start", "migrate"] {
            let (status, output) = try await Servant.run(line: command, in: site.folder)
            #expect(status == 0, "\(command): \(output)")
        }
    }

    /// A member of the group may put a link to a file of root's, or a pipe, at a name beside the database. No command that siwatch prints gives
    /// such a file away, and nothing follows it or waits for it.
    @Test(
        .site,
        .enabled(if: Servant.isRoot && Servant.canBeRun),
        arguments: ["-wal", "-shm", ".lock", ""],
        ["link", "hard link", "pipe"]
    )
    func whatAMemberOfTheGroupPutsThereIsNotGivenAway(suffix: String, kind: String) async throws {
        let path = site.folder.databasePath + suffix
        let secret = site.folder.url.appending(path: "secret").path
        try Servant.take(over: site.folder)
        try Data("root's".utf8).write(to: URL(filePath: secret))
        try #require(chown(secret, 0, 0) == 0 && chmod(secret, 0o600) == 0)
        try? FileManager.default.removeItem(atPath: path)
        let made =
            switch kind {
            case "link": symlink(secret, path) == 0 && lchown(path, 65_533, 65_533) == 0
            case "hard link": link(secret, path) == 0
            default: mkfifo(path, 0o660) == 0 && chown(path, 65_534, 65_534) == 0
            }
        try #require(made)
        for command in ["doctor --before-start", "run", "migrate", "status"] where suffix.isEmpty || command != "status" {
            let (status, output) = try await Servant.run(line: command, in: site.folder)
            let text = output.joined(separator: "\n")
            #expect(status != 0 && text.contains(path), "\(command): \(text)")
            #expect(!text.contains("chown") && !text.contains("chmod"), "\(command): \(text)")
        }
        var found = stat()
        #expect(stat(secret, &found) == 0 && found.st_uid == 0 && found.st_mode & 0o777 == 0o600)
        #expect(try Data(contentsOf: URL(filePath: secret)) == Data("root's".utf8))
    }

    /// The same where the name leads nowhere: siwatch makes no file at the end of another user's link.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func noFileIsMadeThroughALinkOfAnotherUser() async throws {
        let target = site.folder.url.appending(path: "made").path
        try FileManager.default.removeItem(atPath: site.folder.databasePath)
        try Servant.take(over: site.folder)
        try #require(symlink(target, site.folder.databasePath) == 0 && lchown(site.folder.databasePath, 65_533, 65_533) == 0)
        for command in ["migrate", "run"] {
            let (status, output) = try await Servant.run(line: command, in: site.folder)
            #expect(status == 78 && output.joined().contains("is a symbolic link, made by"), "\(command): \(output)")
        }
        #expect(!FileManager.default.fileExists(atPath: target))
        try #require(lchown(site.folder.databasePath, 0, 0) == 0)
        let (status, output) = try await Servant.run("migrate", in: site.folder)
        #expect(status == 0 && FileManager.default.fileExists(atPath: target), "root's own link is followed: \(output)")
    }

    /// The remedy of another odd file would remove the host's device.
    @Test(.site) func aDeviceIsNoFileAndNobodyIsToRemoveIt() async throws {
        try site.folder.edit("path = \"siwatch.sqlite\"", "path = \"/dev/null\"")
        let check = try await site.folder.siwatch("doctor", "--before-start").output.joined()
        #expect(check.contains("/dev/null is a device, and no file that siwatch may write") && !check.contains("rm "), "\(check)")
    }

    @Test(.site, .enabled(if: Servant.canMount)) func aFileSystemThatIsMountedReadOnlyIsSaid() async throws {
        let program = try ChildProcess.program("siwatch").path
        for command in [["doctor", "--before-start"], ["run"]] {
            let shell = try ChildProcess(
                URL(filePath: "/usr/bin/unshare"),
                [
                    "--mount", "/bin/sh", "-c", "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"",
                    site.folder.url.path, program,
                ] + command + ["--config", site.folder.configurationPath]
            )
            #expect(await shell.exit() == 78, "\(shell.output)")
            #expect(shell.output.count == 1 && shell.output[0].contains("mounted read-only"), "\(shell.output)")
        }
    }

    @Test(.site, .enabled(if: geteuid() == 0)) func rootIsToldWhoseTheDatabaseIs() async throws {
        #expect(try await !site.folder.siwatch("doctor", "--before-start").output.joined().contains("sudo -u"))
        try Servant.take(over: site.folder)
        #expect(try await site.folder.siwatch("doctor", "--before-start").output.joined().contains("run it with sudo -u "))
        try #require(chown(site.folder.databasePath, 0, 0) == 0)
        let (status, output) = try await site.folder.siwatch("doctor", "--before-start")
        let path = site.folder.databasePath
        #expect(status == 78 && output.joined().contains("\(path) belongs to root, and the user "), "\(output)")
        #expect(output.joined().contains("sudo chown -h ") && !output.joined().contains("chown -h root"), "\(output)")
    }

    /// Another user's backend leaves such a file when it opens the name before there is a database.
    @Test(.site, .enabled(if: Servant.canBeRun), arguments: [["migrate"], ["run", "--once"]])
    func anEmptyFileIsSaidAndTakenOver(command: [String]) async throws {
        let path = site.folder.databasePath
        for file in [path, Self.key(of: site)] { try FileManager.default.removeItem(atPath: file) }
        try Servant.take(over: site.folder)
        #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o644]))
        let (status, output) = try await Servant.run("doctor", "--before-start", in: site.folder)
        #expect(status == 0 && output.joined().contains("\(path): an empty file"), "\(output)")
        let taken = try await Servant.run(command, in: site.folder)
        #expect(taken.status == 0, "\(taken.output)")
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o660 && attributes[.ownerAccountID] as? UInt32 == Servant.user)
        #expect(try await Servant.run("doctor", "--before-start", in: site.folder).output.joined().contains("\(path): usable"))
    }

    /// As a copy of no bytes is when it is restored.
    @Test(.site) func anEmptyFileBesideASealingKeyIsNoDatabase() async throws {
        let path = site.folder.databasePath
        try FileManager.default.removeItem(atPath: path)
        #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o660]))
        let sentence = """
            database.path: \(path) is empty, and the sealing key is there: restore a backup, or remove the file if there never was a database
            """
        for command in ["doctor --before-start", "migrate", "run", "status"] {
            let (status, output) = try await site.folder.siwatch(line: command)
            #expect(status == (command == "status" ? 2 : 78) && output.joined().contains(sentence), "\(command): \(output)")
        }
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int == 0)
        try FileManager.default.removeItem(atPath: path)
        #expect(try await site.folder.siwatch("migrate").status == 0)
    }

    private static func key(of site: Site) -> String { site.folder.url.appending(path: "siwatch.key").path }

    @Test(.site, arguments: [(0o664, "read"), (0o666, "written")] as [(mode_t, String)])
    func aDatabaseThatEverybodyCanOpenIsRefused(mode: mode_t, verb: String) async throws {
        try #require(chmod(site.folder.databasePath, mode) == 0)
        try #require(chmod(site.folder.url.path, 0o751) == 0)
        for command in ["doctor --before-start", "run"] {
            let (status, output) = try await site.folder.siwatch(line: command)
            #expect(status == 78 && output.joined().contains("can be \(verb) by everybody on this host"), "\(command): \(output)")
            #expect(output.joined().contains(/; sudo -u \S+ chmod o= \S+ closes it/), "\(command): \(output)")
        }
        // Nobody reaches a file in a closed folder.
        try #require(chmod(site.folder.url.path, 0o750) == 0)
        #expect(try await site.folder.siwatch("doctor", "--before-start").status == 0)
    }

    @Test(.site) func aKeyThatOthersCanReadIsRefused() async throws {
        let key = site.folder.url.appending(path: SimulatedApple.keyFile).path
        try #require(chmod(key, 0o644) == 0)
        for command in ["doctor --before-start", "run", "migrate"] {
            let (status, output) = try await site.folder.siwatch(line: command)
            #expect(status == 78 && output.count == 1, "\(command): \(output)")
            #expect(output[0].contains(/; sudo -u \S+ chmod 600 \S+ closes it$/), "\(command): \(output)")
        }
        try #require(chmod(key, 0o600) == 0)
        #expect(try await site.folder.siwatch("doctor", "--before-start").status == 0)
    }

    /// Backends are members of the database's group, and write nothing but rows.
    @Test(.site) func whatBackendsMustNotReadOrChangeIsNotTheirGroups() async throws {
        let folder = site.folder
        var status = stat()
        try #require(stat(folder.databasePath, &status) == 0)
        let key = folder.url.appending(path: SimulatedApple.keyFile).path
        let sealingKey = folder.url.appending(path: "siwatch.key").path
        let configuration = folder.url.appending(path: "siwatch.toml").path
        let backends = status.st_gid
        for (path, mode, sentence) in [
            (key, 0o640, "can be read by the group"), (sealingKey, 0o640, "can be read by the group"),
            (configuration, 0o660, "can be changed by the group"), (configuration, 0o606, "can be changed by everybody"),
            (folder.url.path, 0o757, "can be written by everybody"),
        ] as [(String, mode_t, String)] {
            try #require(stat(path, &status) == 0 && chown(path, status.st_uid, backends) == 0)
            let former = status.st_mode & 0o7777
            try #require(chmod(path, mode) == 0)
            for command in ["doctor --before-start", "run"] {
                let (status, output) = try await folder.siwatch(line: command)
                #expect(status == 78 && output.count == 1, "\(command): \(output)")
                #expect(output[0].contains("\(sentence)") && output[0].contains("closes it"), "\(command): \(output)")
            }
            try #require(chmod(path, former) == 0)
        }
        #expect(try await folder.siwatch("doctor", "--before-start").status == 0)
    }

    /// Another group's members are no backends: systemd and administrators use groups, too.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func anotherGroupMayReadAKey() async throws {
        let key = site.folder.url.appending(path: SimulatedApple.keyFile).path
        try #require(chown(key, 0, Servant.user) == 0 && chmod(key, 0o640) == 0)
        #expect(try await site.folder.siwatch("doctor", "--before-start").status == 0)
    }

    /// Whoever owns a key can read it, whatever its mode.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func aKeyOfAnotherUserIsRefused() async throws {
        try Servant.take(over: site.folder)
        let key = site.folder.url.appending(path: SimulatedApple.keyFile).path
        try #require(chown(key, Servant.user + 1, Servant.user) == 0 && chmod(key, 0o640) == 0)
        let (status, output) = try await Servant.run("doctor", "--before-start", in: site.folder)
        #expect(
            status == 78
                && output.joined().contains(" belongs to \(Servant.user + 1), who can read and change it: if siwatch runs as that user, "),
            "\(output)"
        )
    }

    /// A member of the group can write the file, and root must not read what such a member gives.
    @Test(.site, .enabled(if: Servant.isRoot)) func rootLeavesAFileToItsOwner() async throws {
        #expect(try await site.folder.siwatch("migrate").status == 0)
        try Servant.take(over: site.folder)
        for arguments in [["status"], ["run", "--once"], ["backup", site.folder.url.appending(path: "copy").path]] {
            let process = try await site.folder.siwatch(arguments)
            #expect(process.status == 64)
            #expect(process.output.contains { $0.contains(": run it with sudo -u ") }, "\(process.output)")
        }
        let owner = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path).map {
            try FileManager.default.attributesOfItem(atPath: site.folder.url.appending(path: $0).path)[.ownerAccountID] as? UInt32
        }
        #expect(Set(owner) == [Servant.user], "root has left nothing there")
        #expect(try await site.folder.siwatch("status", "--as-root").status == 2, "no daemon runs")
    }

    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func aConfigurationOfAnotherUserIsWarnedOf() async throws {
        try Servant.take(over: site.folder)
        try #require(chown(site.folder.configurationPath, Servant.user + 1, Servant.user) == 0)
        let (status, output) = try await Servant.run("doctor", "--before-start", in: site.folder)
        #expect(
            status == 0 && output.contains { $0.hasPrefix("warning  ") && $0.contains(" belongs to \(Servant.user + 1), ") },
            "\(output)"
        )
    }

    /// An older release had one group for its own files and for backends.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun)) func aBackendInTheGroupOfTheKeysIsWarnedOf() async throws {
        try Servant.take(over: site.folder)
        let groups = site.folder.url.appending(path: "group").path
        try "siwatch:x:\(Servant.user):siwatch,www-data\n".write(toFile: groups, atomically: true, encoding: .utf8)
        try #require(chmod(groups, 0o644) == 0)
        let shell = try ChildProcess(
            URL(filePath: "/usr/bin/unshare"),
            [
                "--mount", "/bin/sh", "-ec",
                """
                mount --bind "$0" /etc/group
                exec setpriv --reuid=\(Servant.user) --regid=\(Servant.user) --clear-groups "$@"
                """,
                groups, try ChildProcess.program("siwatch").path, "doctor", "--before-start", "--config", site.folder.configurationPath,
            ]
        )
        let status = await shell.exit()
        let warnings = shell.output.filter { $0.hasPrefix("warning  ") && $0.contains("gpasswd") }
        #expect(status == 0 && warnings.count == 1, "\(shell.output)")
        #expect(warnings.first?.contains("; sudo gpasswd -d www-data siwatch ") ?? false, "\(shell.output)")
    }

    @Test(.site) func checkPrintsNamesHarmlessly() async throws {
        try await site.withNeighbour { folder in
            try folder.edit("name = \"example\"", "name = \"ex\u{202e}ample\"")
            let (status, output) = try await folder.siwatch("doctor", "--before-start")
            #expect(status == 0 && output.contains { $0.contains("  app ex\\u{202e}ample: ") }, "\(output)")
        }
    }

    @Test(arguments: [("/a/b-c_1.sqlite", "/a/b-c_1.sqlite"), ("/a b", "'/a b'"), ("/it's $x", #"'/it'\''s $x'"#), ("", "''")])
    func aPathIsOneWordOfAShell(path: String, word: String) {
        #expect(path.shellQuoted == word)
    }
}
