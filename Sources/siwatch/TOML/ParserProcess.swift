// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A child process that reads its standard input to the end, answers on its standard output, and ends.
///
/// By posix_spawn, because Foundation's `Process` watches children by a run loop and signals, which belong to the daemon. siwatch waits for
/// the child by its process id. The child gets no descriptor of ours, and handles all signals as a new program does.
struct ParserProcess {
    private let identifier: pid_t
    /// Our end of the socket that is the child's input and output. Unlike a pipe, it can be written to without SIGPIPE.
    private let socket: Int32

    enum End: Equatable {
        case status(Int32)
        case signal(Int32)
        /// siwatch killed it, because the time was over.
        case killed
    }

    struct NotStarted: Error, CustomStringConvertible {
        let code: Int32
        var description: String { systemError(code) }
    }

    init(_ program: String, _ arguments: [String]) throws(NotStarted) {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else { throw NotStarted(code: errno) }
        defer { close(ends[1]) }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        // An aborting library prints text that belongs on no terminal and in no journal.
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        // Some descriptors do not close themselves, for instance SwiftNIO's. If the child held such a socket, it would stay open after a
        // crash of the daemon.
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            guard let descriptor = Int32(name), descriptor > STDERR_FILENO else { continue }
            posix_spawn_file_actions_addclose(&actions, descriptor)
        }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        // A crash is expected here, so Swift's runtime must not spend seconds on a description of it.
        let environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { _, new in new }
        var argv = arguments.map { strdup($0) } + [nil]
        var envp = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in argv + envp { free(text) } }

        var identifier = pid_t()
        let result = posix_spawn(&identifier, program, &actions, &attributes, &argv, &envp)
        guard result == 0 else {
            close(ends[0])
            throw NotStarted(code: result)
        }
        self.identifier = identifier
        socket = ends[0]
    }

    /// Sends the child its input, takes its output, and waits for its end. Kills the child if that takes longer than `limit`.
    ///
    /// It blocks the thread.
    consuming func exchange(_ input: [UInt8], within limit: Duration) -> (output: [UInt8], end: End) {
        let deadline = ContinuousClock.now + limit
        let output = send(input, until: deadline) ? receive(until: deadline) : nil
        close(socket)
        if output == nil { kill(identifier, SIGKILL) }
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0 {
            // The program that started siwatch ignores the ends of children, so siwatch does too. The output has to tell.
            guard errno == EINTR else { return (output ?? [], .status(-1)) }
        }
        guard let output else { return ([], .killed) }
        // As the C macros do: the low seven bits are the signal, the next byte is the exit code.
        return (output, status & 0x7f == 0 ? .status((status >> 8) & 0xff) : .signal(status & 0x7f))
    }

    /// - Returns: false if the time was over first. A child that does not take all input is no failure, because its end tells why.
    private func send(_ input: [UInt8], until deadline: ContinuousClock.Instant) -> Bool {
        var rest = input[...]
        while !rest.isEmpty {
            guard isReady(for: POLLOUT, until: deadline) else { return false }
            let count = rest.withUnsafeBytes { Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) }
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count > 0 else { break }
            rest = rest.dropFirst(count)
        }
        shutdown(socket, Int32(SHUT_WR))
        return true
    }

    /// - Returns: nil if the time was over before the end of the output.
    private func receive(until deadline: ContinuousClock.Instant) -> [UInt8]? {
        var output: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while isReady(for: POLLIN, until: deadline) {
            let count = read(socket, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            // A child that leaves input unread resets the connection as it ends.
            guard count > 0 else { return output }
            output += buffer[..<count]
        }
        return nil
    }

    private func isReady(for event: Int32, until deadline: ContinuousClock.Instant) -> Bool {
        var descriptor = pollfd(fd: socket, events: Int16(event), revents: 0)
        while true {
            let left = (deadline - .now) / .milliseconds(1)
            guard left > 0 else { return false }
            switch poll(&descriptor, 1, Int32(left.rounded(.up))) {
            case 1...: return true
            case 0: return false
            default: guard errno == EINTR else { return true }
            }
        }
    }
}
