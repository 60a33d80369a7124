// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
package import Foundation
import Synchronization

/// A PostgreSQL server of our own. Its files are in a temporary folder, and a socket there is the only way in.
///
/// PostgreSQL refuses to run as root. Under root it runs as `nobody`, which exists on every system and owns no file of another cluster. The
/// server and its folder go with the process that started it, however that ends: a shell waits for the end of a pipe that only it holds.
package final class PostgresServer: Sendable, Equatable {
    package let folder: URL
    /// The superuser of the server, by default.
    package static let user = "siwatch"
    package static let database = "postgres"
    /// The server that all tests of the process share.
    package static let shared = Result<PostgresServer, any Error> {
        let server = try PostgresServer(model: nil)
        // Create the roles now. Otherwise the first migrations would all create them and queue for that.
        let roles = ["backend", "reader", "notifications", "grants", "revocations"].map { "CREATE ROLE siwatch_\($0)" }
        try BackendServer(server.address(), schema: "public").run(roles.joined(separator: "; "))
        return server
    }
    private let keeper: pid_t
    private let pipeEnd: Int32
    private let isStopped = Atomic(false)
    private let disk: FullDisk?

    /// - Parameters:
    ///   - isDurable: whether a commit survives a crash of the machine, for tests that need this.
    ///   - settings: `name=value`. They override ours.
    package convenience init(isDurable: Bool = false, superuser: String = user, canFill: Bool = false, settings: [String] = []) throws {
        let model = superuser == Self.user && !isDurable ? try Self.shared.get().model : nil
        try self.init(isDurable: isDurable, superuser: superuser, canFill: canFill, settings: settings, model: model)
    }

    /// The data folder as initdb makes it. A copy costs much less than initdb.
    private var model: URL { folder.appending(path: "model") }

    private init(isDurable: Bool = false, superuser: String = user, canFill: Bool = false, settings: [String] = [], model: URL?) throws {
        guard let programs = Self.programs else {
            throw HarnessError("PostgreSQL's server is missing: run make setup-postgres, or install postgresql")
        }
        folder = try Self.makeFolder()
        disk = canFill ? try FullDisk(in: folder) : nil
        Self.forgetOtherServers()
        let ends = try Spawning.makePipe()
        pipeEnd = ends.write
        let ours = [
            "listen_addresses=", "unix_socket_directories=\(folder.path)", "max_connections=200", "shared_buffers=64MB", "autovacuum=off",
            "fsync=\(isDurable ? "on" : "off")", "full_page_writes=\(isDurable ? "on" : "off")", "synchronous_commit=on",
            "log_min_messages=fatal", "max_locks_per_transaction=256",
        ]
        let options = (ours + settings).map { "-c '\($0)'" }.joined(separator: " ")
        keeper = try Self.start(
            """
            trap '' INT TERM HUP
            cd "$1" || exit 1
            as() { exec \(geteuid() == 0 ? "setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups -- " : "")"$@"; }
            \(disk.map { "(\($0.building)) >log 2>&1 || exit 1" } ?? "")
            if [ -z "$2" ]; then
                (as \(programs)/initdb -D model -U \(superuser) -A trust -E UTF8 --locale=C --no-sync) >>log 2>&1 || exit 1
            fi
            cp -a "${2:-model}" data || exit 1
            up() { as \(disk?.environment ?? "") \(programs)/postgres -D "$1/data" \(options) >>log 2>&1 & server=$!; }
            down() { kill -QUIT $server 2>/dev/null; wait $server; rm -f data/postmaster.pid; }
            up "$1"
            while read -r command <&3; do $command "$1"; done
            down
            rm -rf "$1"
            """,
            folder.path,
            model?.path ?? "",
            waitingFor: ends.read
        )
        close(ends.read)
        guard isReady() else { throw HarnessError("PostgreSQL does not start: \(log)") }
    }

    deinit { stop() }
    package static func == (one: PostgresServer, other: PostgresServer) -> Bool { one === other }

    package func stop() {
        // The system soon gives the descriptor's number to another file.
        guard !isStopped.exchange(true, ordering: .relaxed), close(pipeEnd) == 0 else { return }
        var status: Int32 = 0
        while waitpid(keeper, &status, 0) < 0, errno == EINTR {}
    }

    package func takeDown() {
        command("down")
        while FileManager.default.fileExists(atPath: identity.path) { usleep(20_000) }
    }

    /// Starts it again, and waits until it has recovered.
    package func bringUp() throws {
        command("up")
        guard isReady() else { throw HarnessError("PostgreSQL does not start again: \(log)") }
    }

    /// Admits only the connections of these lines of `pg_hba.conf`, from its next start on.
    package func admit(_ lines: String) throws {
        try lines.write(to: folder.appending(path: "data/pg_hba.conf"), atomically: false, encoding: .utf8)
    }

    /// Ends it as a crash would, and starts it again.
    package func restart() throws {
        takeDown()
        try bringUp()
    }

    /// Ends it as a crash would, and starts it again as a standby without a primary. Clients can read it, and cannot write until its
    /// promotion.
    package func demote() throws {
        takeDown()
        try Data().write(to: folder.appending(path: "data/standby.signal"))
        try bringUp()
    }

    /// Sends a signal to all its processes. A client takes a stopped server for one whose machine hangs.
    package func signal(_ signal: Int32) {
        let lines = (try? String(contentsOf: identity, encoding: .utf8))?.split(separator: "\n")
        guard let process = lines?.first.flatMap({ pid_t($0) }) else { return }
        let children = (try? String(contentsOfFile: "/proc/\(process)/task/\(process)/children", encoding: .utf8)) ?? ""
        for process in [process] + children.split(separator: " ").compactMap({ pid_t($0) }) { kill(process, signal) }
    }

    /// Whether no server answers, not even with a refusal.
    package var isAway: Bool { PQping(address()) == PQPING_NO_RESPONSE }

    /// Whether its disk is full, if a test can fill it.
    package var isFull: Bool {
        get { disk?.isFull ?? false }
        set { disk?.isFull = newValue }
    }

    private func command(_ word: String) {
        let line = Array("\(word)\n".utf8)
        write(pipeEnd, line, line.count)
    }

    private var identity: URL { folder.appending(path: "data/postmaster.pid") }

    package func address(user: String = PostgresServer.user, database: String = PostgresServer.database) -> String {
        "host=\(folder.path) user=\(user) dbname=\(database)"
    }

    package func url(user: String = PostgresServer.user, database: String = PostgresServer.database) -> String {
        "postgresql://\(user)@/\(database)?host=\(folder.path)"
    }

    package var log: String { (try? String(contentsOf: folder.appending(path: "log"), encoding: .utf8)) ?? "" }

    /// libpq's environment variables would lead this process to another server, or to a socket outside our folder.
    private static func forgetOtherServers() {
        for name in ProcessInfo.processInfo.environment.keys where name.hasPrefix("PG") { unsetenv(name) }
    }

    /// A server that takes longer has died under its keeper.
    private static let longestStart = Duration.seconds(120)

    /// Waits until the server reports in its status file that it takes connections, or its keeper ends.
    private func isReady() -> Bool {
        let end = ContinuousClock.now + Self.longestStart
        var status: Int32 = 0
        while .now < end, waitpid(keeper, &status, WNOHANG) == 0 {
            let lines = (try? String(contentsOf: identity, encoding: .utf8))?.split(separator: "\n", omittingEmptySubsequences: false) ?? []
            if lines.count >= 8, ["ready", "standby"].contains(where: lines[7].hasPrefix) { return true }
            usleep(20_000)
        }
        return false
    }

    /// The folder of the server's programs. Debian keeps it out of the PATH.
    package static var programs: String? {
        let debian = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        let newest = debian.compactMap { Int($0) }.sorted(by: >).map { "/usr/lib/postgresql/\($0)/bin" }
        let path = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").map(String.init) ?? []
        return (newest + path).first { FileManager.default.isExecutableFile(atPath: $0 + "/initdb") }
    }

    /// Makes it in the first place that an ordinary user can enter, with a path that is short enough for a socket (107 bytes).
    private static func makeFolder() throws -> URL {
        let name = "siwatch-postgres-\(UUID().uuidString.prefix(8))"
        for parent in [FileManager.default.temporaryDirectory.standardizedFileURL, URL(filePath: "/tmp")] {
            let folder = parent.appending(path: name)
            guard folder.path.utf8.count < 80, isOpenToOthers(parent) else { continue }
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            if geteuid() == 0, let nobody = getpwnam("nobody") { chown(folder.path, nobody.pointee.pw_uid, nobody.pointee.pw_gid) }
            return folder
        }
        throw HarnessError("no folder for PostgreSQL: neither the temporary one nor /tmp is open to it")
    }

    private static func isOpenToOthers(_ folder: URL) -> Bool {
        guard geteuid() == 0 else { return true }
        return sequence(first: folder) { $0.path == "/" ? nil : $0.deletingLastPathComponent() }.allSatisfy { folder in
            let mode = try? FileManager.default.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int
            return (mode ?? 0) & 0o001 != 0
        }
    }

    private static func start(_ script: String, _ arguments: String..., waitingFor pipeEnd: Int32) throws -> pid_t {
        try Spawning.start("/bin/sh", ["/bin/sh", "-c", script, "siwatch-postgres"] + arguments, last: 3) { actions in
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
            posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
            posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
            posix_spawn_file_actions_adddup2(&actions, pipeEnd, 3)
        }
    }
}
