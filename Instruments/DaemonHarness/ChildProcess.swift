// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Foundation
import NIOConcurrencyHelpers

/// A real process of one of our programs: to start, read, signal and wait for.
package final class ChildProcess: Sendable {
    private struct State {
        var partial: [UInt8] = []
        var lines: [String] = []
        var waiting: [(number: Int, text: String, found: CheckedContinuation<String?, Never>)] = []
        /// How many calls have ever waited for a line.
        var waits = 0
        var isSilent = false
        var status: Int32?
        var waitingForExit: [CheckedContinuation<Int32, Never>] = []
    }

    private let state = NIOLockedValueBox(State())
    package let identifier: pid_t

    /// Starts a program from the folder of the running one, which holds all products of a build.
    package convenience init(_ name: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        try self.init(Self.program(name), arguments, environment: environment)
    }

    package static func program(_ name: String) throws -> URL {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(filePath: own).deletingLastPathComponent().appending(path: name)
    }

    package init(_ program: URL, _ arguments: [String], environment: [String: String] = [:]) throws {
        // Foundation's Process crashed on Linux now and then, when many processes started and died at once.
        let ends = try Spawning.makePipe()
        defer { close(ends.write) }
        let identifier: pid_t
        do {
            identifier = try Spawning.start(program.path, [program.path] + arguments, environment: environment, last: 2) { actions in
                posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
                posix_spawn_file_actions_adddup2(&actions, ends.write, 1)
                posix_spawn_file_actions_adddup2(&actions, ends.write, 2)
            }
        } catch {
            close(ends.read)
            throw error
        }
        self.identifier = identifier
        let reader = ends.read
        Thread.detachNewThread { self.listen(to: reader) }
    }

    package var output: [String] { state.withLockedValue { $0.lines } }

    /// How the process ended, as `exit()` returns it; nil while it runs.
    package var exitStatus: Int32? { state.withLockedValue { $0.status } }

    /// The first line that contains a text; nil if the process ends without it, or the task is cancelled.
    package func line(containing text: String) async -> String? {
        let number = state.withLockedValue { state in
            state.waits += 1
            return state.waits
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { found in
                let line: String?? = state.withLockedValue { state in
                    if let line = state.lines.first(where: { $0.contains(text) }) { return line }
                    if state.isSilent || Task.isCancelled { return .some(nil) }
                    state.waiting.append((number, text, found))
                    return nil
                }
                if let line { found.resume(returning: line) }
            }
        } onCancel: {
            let found: CheckedContinuation<String?, Never>? = state.withLockedValue { state in
                guard let index = state.waiting.firstIndex(where: { $0.number == number }) else { return nil }
                return state.waiting.remove(at: index).found
            }
            found?.resume(returning: nil)
        }
    }

    /// Waits for the end of its output, which comes with its own, or until the task is cancelled.
    package func silence() async { _ = await line(containing: "\n") }

    package func signal(_ signal: Int32) {
        // After waitpid() the system may give the process number to another process.
        if state.withLockedValue({ $0.status == nil }) { kill(identifier, signal) }
    }

    /// Stops the process as a terminal does, and returns once every thread of it stands still.
    package func freeze() async throws {
        signal(SIGSTOP)
        try await eventually { isFrozen }
    }

    private var isFrozen: Bool {
        let tasks = "/proc/\(identifier)/task"
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
        return threads.allSatisfy { thread in
            let status = FileManager.default.contents(atPath: "\(tasks)/\(thread)/stat").map { String(decoding: $0, as: UTF8.self) }
            // The state follows the name in parentheses. A thread that has ended meanwhile has no state.
            return status?.split(separator: ")").last?.first { $0 != " " }.map { "TtXZ".contains($0) } ?? true
        }
    }

    /// Waits for the end of the process and of its output. Kills the process if the task is cancelled.
    ///
    /// - Returns: the exit code, or 128 plus the signal that ended it.
    @discardableResult
    package func exit() async -> Int32 {
        // Code that cleans up after a cancellation has already told the process how to end.
        let cleansUp = Task.isCancelled
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                state.withLockedValue { $0.waitingForExit.append(continuation) }
                resumeAfterExit()
            }
        } onCancel: {
            if !cleansUp { signal(SIGKILL) }
        }
    }

    /// Waits for the end of the process, and kills it if the task is cancelled.
    package func end() async throws -> Int32 {
        let status = await withTaskCancellationHandler {
            await exit()
        } onCancel: {
            signal(SIGKILL)
        }
        try Task.checkCancellation()
        return status
    }

    private func resumeAfterExit() {
        let (status, waiting): (Int32, [CheckedContinuation<Int32, Never>]) = state.withLockedValue { state in
            guard let status = state.status, state.isSilent else { return (0, []) }
            defer { state.waitingForExit = [] }
            return (status, state.waitingForExit)
        }
        for continuation in waiting { continuation.resume(returning: status) }
    }

    /// Reads to the end of the output, then waits for the end of the process.
    private func listen(to reader: Int32) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(reader, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            received(Array(buffer.prefix(max(count, 0))))
            if count <= 0 { break }
        }
        close(reader)
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
        // Decodes the status as the C macros do: the low seven bits are the signal, the next byte is the exit code.
        exited(with: status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f))
    }

    private func received(_ bytes: [UInt8]) {
        let found = state.withLockedValue { state in
            var found: [(CheckedContinuation<String?, Never>, String?)] = []
            state.partial += bytes
            while let end = state.partial.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: state.partial[..<end], as: UTF8.self)
                state.partial.removeSubrange(...end)
                state.lines.append(line)
                found += state.waiting.filter { line.contains($0.text) }.map { ($0.found, line) }
                state.waiting.removeAll { line.contains($0.text) }
            }
            if bytes.isEmpty {
                state.isSilent = true
                found += state.waiting.map { ($0.found, nil) }
                state.waiting = []
            }
            return found
        }
        for (continuation, line) in found { continuation.resume(returning: line) }
        if bytes.isEmpty { resumeAfterExit() }
    }

    private func exited(with status: Int32) {
        state.withLockedValue { $0.status = status }
        resumeAfterExit()
    }
}

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

    /// Starts a program in our environment and this one. It gets the descriptors that `give` adds, and none beyond the last.
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
            // Some descriptors do not close on exec, as SwiftNIO's accepted sockets. Their peer would wait for the child, too.
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
