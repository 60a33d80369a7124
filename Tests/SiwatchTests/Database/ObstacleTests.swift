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
        let path = name.isEmpty ? site.folder.url.path : site.folder.path(name)
        try Servant.take(over: site.folder)
        try await Servant.expect("doctor --before-start", in: site.folder, 0)
        try Servant.lose(path)
        let words = "siwatch: database.path: \(path) cannot be written by the user "
        for command in ["doctor --before-start", "run", "migrate"] {
            #expect(try await Servant.expect(command, in: site.folder, 78, words).count == 1)
        }
        let sentence = try await Servant.expect("doctor --before-start", in: site.folder, 78).joined()
        let command = try #require(sentence.firstMatch(of: /; (sudo .*) mends it$/)?.1)
        #expect(!command.contains("*") && (name.isEmpty || command.contains("chown -h") || !Servant.isRoot), "\(command)")
        let asRoot = String(command).replacing(/sudo (-u \S+ )?/, with: "")
        let shell = try ChildProcess.shell(asRoot)
        #expect(await shell.exit() == 0, "\(command): \(shell.output)")
        for command in ["doctor --before-start", "migrate"] { try await Servant.expect(command, in: site.folder, 0) }
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
        let secret = site.folder.path("secret")
        try Servant.take(over: site.folder)
        try site.folder.write("root's", to: "secret")
        try #require(chown(secret, 0, 0) == 0)
        try? FileManager.default.removeItem(atPath: path)
        let made =
            switch kind {
            case "link": symlink(secret, path) == 0 && lchown(path, 65_533, 65_533) == 0
            case "hard link": link(secret, path) == 0
            default: mkfifo(path, 0o660) == 0 && chown(path, 65_534, 65_534) == 0
            }
        try #require(made)
        for command in ["doctor --before-start", "run", "migrate", "status"] where suffix.isEmpty || command != "status" {
            let process = try Servant.start(command, in: site.folder)
            #expect(await process.exit() != 0)
            let text = process.output.joined(separator: "\n")
            #expect(text.contains(path) && !text.contains("chown") && !text.contains("chmod"), "\(command): \(text)")
        }
        var found = stat()
        #expect(stat(secret, &found) == 0 && found.st_uid == 0 && found.st_mode & 0o777 == 0o600)
        #expect(try Data(contentsOf: URL(filePath: secret)) == Data("root's".utf8))
    }

    /// The same where the name leads nowhere: siwatch makes no file at the end of another user's link.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func noFileIsMadeThroughALinkOfAnotherUser() async throws {
        let target = site.folder.path("made")
        try FileManager.default.removeItem(atPath: site.folder.databasePath)
        try Servant.take(over: site.folder)
        try #require(symlink(target, site.folder.databasePath) == 0 && lchown(site.folder.databasePath, 65_533, 65_533) == 0)
        for command in ["migrate", "run"] { try await Servant.expect(command, in: site.folder, 78, "is a symbolic link, made by") }
        #expect(!FileManager.default.fileExists(atPath: target))
        try #require(lchown(site.folder.databasePath, 0, 0) == 0)
        try await Servant.expect("migrate", in: site.folder, 0)
        #expect(FileManager.default.fileExists(atPath: target), "root's own link is followed")
    }

    /// The remedy of another odd file would remove the host's device.
    @Test(
        .site,
        arguments: [
            ("/dev/null", "/dev/null is a device, and no file that siwatch may write"), ("missing/siwatch.sqlite", "database.path"),
        ]
    )
    func aPlaceForNoDatabaseIsNamed(path: String, words: String) async throws {
        try site.folder.edit("path = \"siwatch.sqlite\"", "path = \"\(path)\"")
        try await site.folder.expect("doctor --before-start", 78, words, not: "rm ")
    }

    @Test(.site, .enabled(if: Servant.canMount)) func aFileSystemThatIsMountedReadOnlyIsSaid() async throws {
        for command in ["doctor --before-start", "run"] {
            let process = try Servant.start(command, in: site.folder, mounting: MountTests.bound("ro"), at: site.folder.url.path)
            #expect(await process.exit() == 78, "\(process.output)")
            #expect(process.output.count == 1 && process.output[0].contains("mounted read-only"), "\(process.output)")
        }
    }

    @Test(.site, .enabled(if: geteuid() == 0)) func rootIsToldWhoseTheDatabaseIs() async throws {
        try await site.folder.expect("doctor --before-start", 0, not: "sudo -u")
        try Servant.take(over: site.folder)
        try await site.folder.expect("doctor --before-start", says: "run it with sudo -u ")
        try #require(chown(site.folder.databasePath, 0, 0) == 0)
        let words = "\(site.folder.databasePath) belongs to root, and the user "
        try await site.folder.expect("doctor --before-start", 78, words, "sudo chown -h ", not: "chown -h root")
    }

    /// Another user's backend leaves such a file when it opens the name before there is a database.
    @Test(.site, .enabled(if: Servant.canBeRun), arguments: ["migrate", "run --once"])
    func anEmptyFileIsSaidAndTakenOver(command: String) async throws {
        let path = site.folder.databasePath
        for file in [path, site.folder.path("siwatch.key")] { try FileManager.default.removeItem(atPath: file) }
        try Servant.take(over: site.folder)
        #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o644]))
        try await Servant.expect("doctor --before-start", in: site.folder, 0, "\(path): an empty file")
        try await Servant.expect(command, in: site.folder, 0)
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o660 && attributes[.ownerAccountID] as? UInt32 == Servant.user)
        try await Servant.expect("doctor --before-start", in: site.folder, 0, "\(path): usable")
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
            try await site.folder.expect(command, command == "status" ? 2 : 78, sentence)
        }
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int == 0)
        try FileManager.default.removeItem(atPath: path)
        try await site.folder.expect("migrate", 0)
    }

    @Test(.site, arguments: [(0o664, "read"), (0o666, "written")] as [(mode_t, String)])
    func aDatabaseThatEverybodyCanOpenIsRefused(mode: mode_t, verb: String) async throws {
        try #require(chmod(site.folder.databasePath, mode) == 0)
        try #require(chmod(site.folder.url.path, 0o751) == 0)
        for command in ["doctor --before-start", "run"] {
            let output = try await site.folder.expect(command, 78, "can be \(verb) by everybody on this host")
            #expect(output.joined().contains(/; sudo -u \S+ chmod o= \S+ closes it/), "\(command): \(output)")
        }
        // Nobody reaches a file in a closed folder.
        try #require(chmod(site.folder.url.path, 0o750) == 0)
        try await site.folder.expect("doctor --before-start", 0)
    }

    @Test(.site) func aKeyThatOthersCanReadIsRefused() async throws {
        let key = site.folder.path(SimulatedApple.keyFile)
        try #require(chmod(key, 0o644) == 0)
        for command in ["doctor --before-start", "run", "migrate"] {
            let output = try await site.folder.expect(command, 78)
            #expect(output.count == 1 && output[0].contains(/; sudo -u \S+ chmod 600 \S+ closes it$/), "\(command): \(output)")
        }
        try #require(chmod(key, 0o600) == 0)
        try await site.folder.expect("doctor --before-start", 0)
    }

    /// Backends are members of the database's group, and write nothing but rows.
    @Test(.site) func whatBackendsMustNotReadOrChangeIsNotTheirGroups() async throws {
        let folder = site.folder
        var status = stat()
        try #require(stat(folder.databasePath, &status) == 0)
        let key = folder.path(SimulatedApple.keyFile)
        let sealingKey = folder.path("siwatch.key")
        let configuration = folder.path("siwatch.toml")
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
                #expect(try await folder.expect(command, 78, sentence, "closes it").count == 1)
            }
            try #require(chmod(path, former) == 0)
        }
        try await folder.expect("doctor --before-start", 0)
    }

    /// Another group's members are no backends: systemd and administrators use groups, too.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func anotherGroupMayReadAKey() async throws {
        let key = site.folder.path(SimulatedApple.keyFile)
        try #require(chown(key, 0, Servant.user) == 0 && chmod(key, 0o640) == 0)
        try await site.folder.expect("doctor --before-start", 0)
    }

    /// Whoever owns a key can read it, whatever its mode.
    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func aKeyOfAnotherUserIsRefused() async throws {
        try Servant.take(over: site.folder)
        let key = site.folder.path(SimulatedApple.keyFile)
        try #require(chown(key, Servant.user + 1, Servant.user) == 0 && chmod(key, 0o640) == 0)
        let words = " belongs to \(Servant.user + 1), who can read and change it: if siwatch runs as that user, "
        try await Servant.expect("doctor --before-start", in: site.folder, 78, words)
    }

    /// A member of the group can write the file, and root must not read what such a member gives.
    @Test(.site, .enabled(if: Servant.isRoot)) func rootLeavesAFileToItsOwner() async throws {
        try await site.folder.expect("migrate", 0)
        try Servant.take(over: site.folder)
        for command in ["status", "backup \(site.folder.path("copy"))"] {
            try await site.folder.expect(command, 64, ": run it with sudo -u ")
        }
        let owners = try FileManager.default.contentsOfDirectory(atPath: site.folder.url.path).map {
            try FileManager.default.attributesOfItem(atPath: site.folder.url.appending(path: $0).path)[.ownerAccountID] as? UInt32
        }
        #expect(Set(owners) == [Servant.user], "root has left nothing there")
        try await site.folder.expect("status --as-root", 2)
    }

    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func aConfigurationOfAnotherUserIsWarnedOf() async throws {
        try Servant.take(over: site.folder)
        try #require(chown(site.folder.configurationPath, Servant.user + 1, Servant.user) == 0)
        let output = try await Servant.expect("doctor --before-start", in: site.folder, 0)
        #expect(output.contains { $0.hasPrefix("warning  ") && $0.contains(" belongs to \(Servant.user + 1), ") }, "\(output)")
    }

    /// An older release had one group for its own files and for backends.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun)) func aBackendInTheGroupOfTheKeysIsWarnedOf() async throws {
        try Servant.take(over: site.folder)
        let groups = site.folder.path("group")
        try site.folder.write("siwatch:x:\(Servant.user):siwatch,www-data\n", to: "group", mode: 0o644)
        let user = "setpriv --reuid=\(Servant.user) --regid=\(Servant.user) --clear-groups"
        let mount = "mount --bind \"$0\" /etc/group"
        let shell = try Servant.start("doctor --before-start", in: site.folder, by: user, mounting: mount, at: groups)
        let status = await shell.exit()
        let warnings = shell.output.filter { $0.hasPrefix("warning  ") && $0.contains("gpasswd") }
        #expect(status == 0 && warnings.count == 1, "\(shell.output)")
        #expect(warnings.first?.contains("; sudo gpasswd -d www-data siwatch ") ?? false, "\(shell.output)")
    }

    @Test(.site) func checkPrintsNamesHarmlessly() async throws {
        try await site.withNeighbour { folder in
            try folder.edit("name = \"example\"", "name = \"ex\u{202e}ample\"")
            try await folder.expect("doctor --before-start", 0, "  app ex\\u{202e}ample: ")
        }
    }

    @Test(arguments: [("/a/b-c_1.sqlite", "/a/b-c_1.sqlite"), ("/a b", "'/a b'"), ("/it's $x", #"'/it'\''s $x'"#), ("", "''")])
    func aPathIsOneWordOfAShell(path: String, word: String) {
        #expect(path.shellQuoted == word)
    }
}
