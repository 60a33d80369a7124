// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Foundation
internal import Synchronization

/// A program of ours as a real process: started, listened to, signalled, awaited.
package final class ChildProcess: Sendable {
    private struct State {
        var partial: [UInt8] = []
        var lines: [String] = []
        var waiting: [(text: String, found: CheckedContinuation<String?, Never>)] = []
        var isSilent = false
        var status: Int32?
        var waitingForExit: [CheckedContinuation<Int32, Never>] = []
    }

    private let state = Mutex(State())
    private let process = Process()

    package var identifier: pid_t { process.processIdentifier }

    /// Starts a program that stands beside the running one, as all products of a build do.
    package convenience init(_ name: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(filePath: own).deletingLastPathComponent().appending(path: name)
        try self.init(program, arguments, environment: environment)
    }

    package init(_ program: URL, _ arguments: [String], environment: [String: String] = [:]) throws {
        process.executableURL = program
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { _, new in new }
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        // It keeps this object alive until the process is gone.
        process.terminationHandler = { self.exited($0.terminationStatus, by: $0.terminationReason) }
        try Self.withoutBlockedSignals { try process.run() }
        // Not by a readability handler: on Linux, libdispatch crashed at the end of every third process that was killed.
        let reader = output.fileHandleForReading
        Thread.detachNewThread { self.listen(to: reader) }
    }

    /// Threads of Dispatch block nearly all signals, and a child inherits the mask of the thread that starts it.
    private static func withoutBlockedSignals(_ body: () throws -> Void) rethrows {
        var none = sigset_t()
        var usual = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &usual)
        defer { pthread_sigmask(SIG_SETMASK, &usual, nil) }
        try body()
    }

    /// What the process wrote so far, both streams together.
    package var output: [String] { state.withLock { $0.lines } }

    /// How the process ended, as `exit()` returns it; nil while it runs.
    package var exitStatus: Int32? { state.withLock { $0.status } }

    /// The first line that contains a text; nil if the process ends without it.
    package func line(containing text: String) async -> String? {
        await withCheckedContinuation { found in
            let line: String?? = state.withLock { state in
                if let line = state.lines.first(where: { $0.contains(text) }) { return line }
                if state.isSilent { return .some(nil) }
                state.waiting.append((text, found))
                return nil
            }
            if let line { found.resume(returning: line) }
        }
    }

    package func signal(_ signal: Int32) {
        // A process that has been waited for may have left its number to another.
        if state.withLock({ $0.status == nil }) { kill(identifier, signal) }
    }

    /// Waits for the end of the process and of its output.
    ///
    /// - Returns: the exit code, or 128 plus the signal that ended it.
    @discardableResult
    package func exit() async -> Int32 {
        await withCheckedContinuation { continuation in
            state.withLock { $0.waitingForExit.append(continuation) }
            resumeAfterExit()
        }
    }

    private func resumeAfterExit() {
        let (status, waiting): (Int32, [CheckedContinuation<Int32, Never>]) = state.withLock { state in
            guard let status = state.status, state.isSilent else { return (0, []) }
            defer { state.waitingForExit = [] }
            return (status, state.waitingForExit)
        }
        for continuation in waiting { continuation.resume(returning: status) }
    }

    private func listen(to reader: FileHandle) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(reader.fileDescriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            received(Array(buffer.prefix(max(count, 0))))
            if count <= 0 { return }
        }
    }

    private func received(_ bytes: [UInt8]) {
        let found = state.withLock { state in
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

    private func exited(_ code: Int32, by reason: Process.TerminationReason) {
        let status = reason == .uncaughtSignal ? 128 + code : code
        state.withLock { $0.status = status }
        resumeAfterExit()
    }
}
