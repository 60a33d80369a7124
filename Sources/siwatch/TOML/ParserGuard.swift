// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import TOMLKit

/// What the process says as it ends. A signal handler has no other way to it. Only the thread that parses writes it.
nonisolated(unsafe) private var lastWords: UnsafeMutablePointer<CChar>?

/// Meets documents at which toml++ aborts, overflows its stack or computes on and on. The known ones are refused before. The others end a
/// command with a sentence and 78. A daemon tries its new configuration in another process first.
enum ParserGuard {
    /// How long a process may compute until a document is parsed, in seconds. A busy machine does not use this time up.
    private static let longest = 5

    /// Parses the document that stands at `path`, or ends the process. Only one thread of a process may call it.
    static func parse(_ text: String, at path: String) throws(ConfigurationMistake) -> TOMLTable {
        lastWords = strdup(
            "siwatch: \(path.printable): cannot be read as TOML: its parser died of it or was not done after \(longest) s, and cannot say where\n"
        )
        // A stack of its own, because the parser may have used up this one.
        let stack = UnsafeMutableRawPointer.allocate(byteCount: stackSize, alignment: 16)
        var (ours, before) = (stack_t(ss_sp: stack, ss_flags: 0, ss_size: stackSize), stack_t())
        sigaltstack(&ours, &before)
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in
            if let lastWords { write(STDERR_FILENO, lastWords, strlen(lastWords)) }
            _exit(78)
        }
        action.sa_flags = SA_ONSTACK
        let earlier = [SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGXCPU].map { signal in
            var earlier = sigaction()
            sigaction(signal, &action, &earlier)
            return (signal, earlier)
        }
        let limits = limitProcessorTime()
        defer {
            if var limits { setrlimit(processorTime, &limits) }
            for (signal, var action) in earlier { sigaction(signal, &action, nil) }
            sigaltstack(&before, nil)
            stack.deallocate()
            free(lastWords)
            lastWords = nil
        }
        return try .parse(text)
    }

    private static let stackSize = 65_536
    private static let processorTime = __rlimit_resource_t(RLIMIT_CPU.rawValue)

    /// Lowers the soft limit only, and returns the limits before. At the hard limit the signal is SIGKILL, which nobody can handle.
    private static func limitProcessorTime() -> rlimit? {
        var (limits, used) = (rlimit(), timespec())
        guard getrlimit(processorTime, &limits) == 0, clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0 else { return nil }
        let before = limits
        limits.rlim_cur = min(rlim_t(used.tv_sec + longest), limits.rlim_max)
        setrlimit(processorTime, &limits)
        return before
    }

    // MARK: In another process

    private static let trial = "parse-toml"

    /// Parses standard input and ends the process, if it was started for that. It is no command of ArgumentParser, which takes longer to begin
    /// than a configuration to be parsed.
    static func runIfAsked() {
        guard CommandLine.arguments.dropFirst() == [trial] else { return }
        // The thread that has started this process may have blocked them.
        var all = sigset_t()
        sigfillset(&all)
        sigprocmask(SIG_UNBLOCK, &all, nil)
        let text = String(decoding: (try? FileHandle.standardInput.readToEnd()) ?? Data(), as: UTF8.self)
        // What is wrong with it is said by the process that asks.
        _ = try? parse(text, at: "")
        write(STDOUT_FILENO, ".", 1)
        exit(0)
    }

    /// Waits for another process, this program once more, to parse the file. The program is started by its open file, so that a daemon whose
    /// program was replaced tries as before. Throws why this process must not parse it.
    static func tryElsewhere(_ path: String) throws(ConfigurationMistake) {
        // Its word tells, because in a container somebody else may take its exit code.
        let (process, word) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/proc/self/exe")
        process.arguments = [trial]
        process.standardInput = FileHandle(forReadingAtPath: path) ?? .nullDevice
        (process.standardOutput, process.standardError) = (word, FileHandle.nullDevice)
        do {
            try process.run()
        } catch {
            throw ConfigurationMistake(place: .file, problem: "cannot be tried in another process: \(error)")
        }
        let said = try? word.fileHandleForReading.readToEnd()
        process.waitUntilExit()
        guard said == Data(".".utf8) else {
            throw ConfigurationMistake(place: .file, problem: "cannot be read as TOML: its parser died of it in another process")
        }
    }
}
