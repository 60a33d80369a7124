// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOConcurrencyHelpers

/// Starts child processes. A child inherits only the descriptors that the caller gives it.
enum Spawning {
    /// Held while a child starts, and from the making of a pipe until it is marked as not inherited.
    private static let turn = NIOLock()

    /// A pipe that no child inherits.
    static func makePipe() throws -> (read: Int32, write: Int32) {
        try turn.withLock {
            var ends: [Int32] = [-1, -1]
            guard pipe(&ends) == 0 else { throw HarnessError("no pipe: \(String(cString: strerror(errno)))") }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            return (read: ends[0], write: ends[1])
        }
    }

    /// Starts a program.
    ///
    /// - Parameters:
    /// - words: the program's name, and its arguments.
    /// - environment: added to our own.
    /// - last: the last descriptor that the child gets. All beyond are closed.
    /// - give: adds the descriptors for the child.
    static func start(
        _ program: String,
        _ words: [String],
        environment: [String: String] = [:],
        last: Int32,
        _ give: (inout posix_spawn_file_actions_t) -> Void
    ) throws -> pid_t {
        // Threads of Dispatch block nearly all signals, and a child would inherit that.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        // libpq's environment variables would lead a child to another server.
        let inherited = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PG") }
        let variables = inherited.merging(environment) { _, new in new }
        var argv = words.map { strdup($0) } + [nil]
        var envp = variables.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in argv + envp { free(text) } }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        give(&actions)

        var identifier = pid_t()
        let result = turn.withLock {
            // Some descriptors do not close on exec: SwiftNIO's accepted sockets, for one. Their peer would wait for the child to close
            // them, too.
            for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
                guard let descriptor = Int32(name), descriptor > last else { continue }
                posix_spawn_file_actions_addclose(&actions, descriptor)
            }
            return posix_spawn(&identifier, program, &actions, &attributes, &argv, &envp)
        }
        guard result == 0 else { throw HarnessError("\(program) does not start: \(String(cString: strerror(result)))") }
        return identifier
    }
}
