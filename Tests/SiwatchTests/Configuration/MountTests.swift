// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// Secrets that a container platform mounts.
struct MountTests {
    /// As in a pod, and in a container of Compose.
    private static let mounts = """
        1463 1340 0:279 / / ro,relatime master:530 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c
        1467 1463 0:285 / /run rw,nosuid - tmpfs tmpfs rw,size=65536k
        1470 1463 0:150 / /etc/siwatch/keys ro,relatime - tmpfs tmpfs rw,size=262144k
        1471 1463 254:1 /home/me/siwatch.toml /etc/siwatch/siwatch.toml ro,relatime - ext4 /dev/vda1 rw,discard
        1472 1463 254:1 /volume /var/lib/siwatch rw,relatime shared:1 - ext4 /dev/vda1 rw
        1473 1472 254:1 /one /var/lib/siwatch/a\\040b rw - ext4 /dev/vda1 rw
        1474 1472 254:1 /two /var/lib/siwatch/a\\040b ro - ext4 /dev/vda1 rw
        """

    @Test(arguments: [
        ("/usr/bin/siwatch", "/", true, "overlay"), ("/run/siwatch/siwatch.sock", "/run", false, "tmpfs"),
        ("/etc/siwatch/keys/..2026_11_27/siwatch.key", "/etc/siwatch/keys", true, "tmpfs"),
        ("/etc/siwatch/siwatch.toml", "/etc/siwatch/siwatch.toml", true, "ext4"), ("/etc/siwatch/siwatch.toml2", "/", true, "overlay"),
        ("/var/lib/siwatch", "/var/lib/siwatch", false, "ext4"), ("/var/lib/siwatch/a b/c", "/var/lib/siwatch/a b", true, "ext4"),
    ]) func theNearestMountHoldsAFile(path: String, point: String, isReadOnly: Bool, type: String) throws {
        let mount = try #require(Mount(of: path, in: Self.mounts))
        #expect(mount.point == point && mount.isReadOnly == isReadOnly && mount.type == type)
    }

    @Test func aTextThatLooksOtherwiseHasNoMounts() {
        for text in ["", "\n", "1463 1340 0:279 / /", "1463 1340 0:279 / / ro,relatime", "1463 1340 0:279 / / ro -"] {
            #expect(Mount(of: "/etc", in: text) == nil)
        }
    }

    /// Files of many programs lie there. A unit may see them read-only.
    @Test(arguments: ["/tmp", "/run", "/dev/shm"], ["rw", "ro"]) func aMountOfTheSystemIsForNoSecret(point: String, option: String) throws {
        let path = "\(point)/siwatch.key"
        let mount = try #require(Mount(of: path, in: "1467 1463 0:285 / \(point) \(option),nosuid - tmpfs tmpfs rw"))
        #expect(mount.type == "tmpfs" && !mount.isFor(path) && !mount.isSecret(path))
    }

    @Test func onlyAMountInMemoryIsForSecrets() throws {
        for (type, isSecret) in [("tmpfs", true), ("ramfs", true), ("ext4", false)] {
            let mount = try #require(Mount(of: "/usr/siwatch.key", in: "1470 1463 0:150 / /usr ro - \(type) none rw"))
            #expect(mount.isFor("/usr/siwatch.key") && mount.isSecret("/usr/siwatch.key") == isSecret)
            #expect(!mount.isFor("/usr/bin/siwatch.key"))
        }
    }

    /// A group of the backends, which is not that of the keys.
    private static let backends = Servant.user + 2

    /// Gives the database and its folder to that group, as the package does.
    private static func share(_ folder: WatchedFolder) throws {
        try Servant.take(over: folder)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path).filter { $0.hasPrefix("siwatch.sqlite") }
        for path in names.map({ folder.url.appending(path: $0).path }) + [folder.url.path] where chown(path, Servant.user, backends) != 0 {
            throw HarnessError("chown \(path)")
        }
    }

    /// Gives a key an owner, a group and a mode, mounts what it is to be, and expects this of `doctor --before-start` for a member of both
    /// groups.
    ///
    /// - Parameter process: the group of the process.
    private func expect(
        _ status: Int32,
        _ words: String...,
        not absent: [String] = [],
        of name: String,
        _ owner: UInt32,
        _ group: UInt32,
        mode: mode_t = 0o440,
        as process: UInt32 = Servant.user,
        mounting commands: String = Self.bound("ro"),
        at location: SourceLocation = #_sourceLocation
    ) async throws {
        let key = site.folder.path(name)
        try #require(chown(key, owner, group) == 0 && chmod(key, mode) == 0)
        let user = "setpriv --reuid=\(Servant.user) --regid=\(process) --groups=\(Servant.user),\(Self.backends)"
        let shell = try Servant.start("doctor --before-start", in: site.folder, by: user, mounting: commands, at: key)
        examine((await shell.exit(), shell.output), name, status, words, not: absent, at: location)
    }

    /// Commands of a shell that mount `$0` once more.
    static func bound(_ options: String) -> String { "mount --bind \"$0\" \"$0\"\nmount -o remount,bind,\(options) \"$0\"" }

    private static let advice = "it is mounted read-only: give it the group \(Servant.user) and the mode 0440 where it comes from"

    /// Docker mounts each secret read-only, with the owner that its file has on the host.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun), arguments: [SimulatedApple.keyFile, "siwatch.key"])
    func theOwnerOfAMountedKeyIsTheHostsAndItsGroupIsNotTheBackends(name: String) async throws {
        try Self.share(site.folder)
        try await expect(0, not: ["chown"], of: name, Servant.user + 1, Servant.user)
        // A host's own folder may be a mount as well.
        try await expect(78, "who can read and change it", of: name, Servant.user + 1, Servant.user, mounting: Self.bound("rw"))
        // Backends read this key, as under a unit with `ReadOnlyPaths=` and `Group=siwatch-backend`.
        try await expect(78, "which is the backends' own; \(Self.advice)", of: name, 0, Self.backends, as: Self.backends)
    }

    /// The key is as it should be, and the volume of the database is not.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun)) func aVolumeOfOurOwnGroupIsNamed() async throws {
        try Self.share(site.folder)
        for path in [site.folder.url.path, site.folder.databasePath] { try #require(chown(path, Servant.user, Servant.user) == 0) }
        try await expect(78, "give the folder a group of the backends", of: "siwatch.key", 0, Servant.user)
    }

    /// Without a mount, the same key is given to the user's own group and not to that of the process.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun)) func aKeyOfTheBackendsGoesToThePrimaryGroup() async throws {
        try Self.share(site.folder)
        let words = "; sudo chown -h \(Account.name(ofUser: Servant.user)):\(Account.name(ofGroup: Servant.user)) "
        try await expect(78, words, of: SimulatedApple.keyFile, 0, Self.backends, as: Self.backends, mounting: "")
    }

    /// In a pod the database and the secrets may have one group.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun), arguments: [SimulatedApple.keyFile, "siwatch.key"])
    func thePlatformChoosesOwnerAndGroupOfASecretInMemory(name: String) async throws {
        try Self.share(site.folder)
        let commands = """
            memory=${0%/*}/memory
            mkdir "$memory"
            mount -t tmpfs tmpfs "$memory"
            cp -p "$0" "$memory/key"
            mount --bind "$memory/key" "$0"
            """
        try await expect(0, of: name, Servant.user + 1, Self.backends, mounting: commands)
    }

    /// No command in the container can mend it.
    @Test(.site, .enabled(if: Servant.canMount && Servant.canBeRun), arguments: [SimulatedApple.keyFile, "siwatch.key"])
    func aMountedKeyThatOthersCanReadIsClosedWhereItComesFrom(name: String) async throws {
        try Servant.take(over: site.folder)
        try await expect(78, "\(Self.advice)\n", not: ["chown", "chmod"], of: name, 0, 0, mode: 0o444)
    }
}
