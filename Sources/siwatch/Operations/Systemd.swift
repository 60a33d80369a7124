// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Dispatch
import Foundation
import ServiceLifecycle

/// Tells systemd the state of the service, in one datagram to `$NOTIFY_SOCKET`, as in sd_notify(3).
///
/// If nobody listens, as on a terminal, it sends nothing. It keeps nothing open, so any service may hold a copy.
struct SystemdNotifier: Sendable {
    enum Message: Sendable, Equatable {
        /// `systemctl start` returns.
        case ready
        /// siwatch reads its configuration again. READY follows.
        case reloading
        case stopping
        case watchdog
        /// One line for `systemctl status`.
        case status(String)

        fileprivate var assignment: String {
            switch self {
            case .ready: "READY=1"
            case .reloading: "RELOADING=1\nMONOTONIC_USEC=\(Self.monotonicMicroseconds)"
            case .stopping: "STOPPING=1"
            case .watchdog: "WATCHDOG=1"
            // A line break would begin another assignment.
            case .status(let text): "STATUS=" + text.split(whereSeparator: \.isNewline).joined(separator: " ")
            }
        }

        /// By CLOCK_MONOTONIC. systemd compares this time, so that it knows that READY answers this reload.
        private static var monotonicMicroseconds: UInt64 { DispatchTime.now().uptimeNanoseconds / 1000 }
    }

    /// A path, or an abstract name that begins with `@`.
    private let address: String?

    init(address: String? = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"]) {
        self.address = address.flatMap { $0.isEmpty ? nil : $0 }
    }

    var isHeard: Bool { address != nil }

    /// How often, at least, systemd wants to hear of progress. Nil if it does not watch this process (sd_watchdog_enabled(3)).
    static func watchdogInterval(
        _ environment: [String: String] = ProcessInfo.processInfo.environment,
        process: Int32 = ProcessInfo.processInfo.processIdentifier
    ) -> Duration? {
        if let watched = environment["WATCHDOG_PID"], watched != String(process) { return nil }
        guard let interval = environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), interval > 0 else { return nil }
        return .microseconds(interval)
    }

    /// Sends a message that must not be lost. Tries again while systemd is too busy to read.
    func notify(_ message: Message, within timeout: Duration) async throws {
        let end = ContinuousClock.now + timeout
        while true {
            do {
                return try notify(message)
            } catch {
                guard error.code == EAGAIN, ContinuousClock.now < end else { throw error }
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Never waits, because a systemd that does not read must not stop siwatch. If systemd does not get READY, its start-up time-out ends the
    /// service, so the error is worth a log line.
    func notify(_ message: Message) throws(SystemdNotifierError) {
        guard let address else { return }
        let text = message.assignment
        guard var target = sockaddr_un(socketAddress: address) else { throw SystemdNotifierError(code: EAFNOSUPPORT) }
        // An abstract name ends with the address, not with a NUL.
        let length = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path)! + address.utf8.count)

        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemdNotifierError(code: errno) }
        defer { close(descriptor) }

        let sent = withUnsafePointer(to: &target) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                sendto(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT), pointer, length)
            }
        }
        guard sent == text.utf8.count else { throw SystemdNotifierError(code: errno) }
    }
}

/// A datagram did not reach systemd. `code` is the `errno`.
struct SystemdNotifierError: Error, Equatable, CustomStringConvertible {
    var code: Int32

    var description: String { "systemd cannot be told: \(systemError(code))" }
}

/// Tells systemd's watchdog of progress, and shows figures in `systemctl status`. It is the first service in the group, so it lasts through
/// a stop.
struct SystemdReports: Service {
    let health: Health
    let status: @Sendable () async throws -> StatusReport
    let watchdogInterval: Duration?

    func run() async throws {
        guard health.notifier.isHeard else { return try await gracefulShutdown() }
        await withDiscardingTaskGroup { group in
            if let watchdogInterval {
                group.addTask {
                    // Three tries in each interval.
                    try? await Recurring(every: watchdogInterval / 3, onFailure: { _ in }) {
                        if health.isAlive { try health.notifier.notify(.watchdog) }
                    }.run()
                }
            }
            group.addTask {
                try? await Recurring(every: .seconds(5), onFailure: { _ in }) {
                    try await health.notifier.notify(.status(sentence()))
                }.run()
            }
        }
    }

    /// For example `12 authorized, 3 revoked, 0 notFound; waiting: 0 notification, 0 sign-in, 0 revocation; 0 checks overdue`.
    private func sentence() async throws -> String {
        if let obstacle = health.obstacle() { return obstacle }
        let tables = try await status().tables
        let states = CredentialState.allCases.map { state in
            let count = tables.credentials.filter { $0.state == state.rawValue }.reduce(0) { $0 + $1.count }
            return "\(count) \(state.rawValue)"
        }
        let queues = tables.queues.map { "\($0.depth) \($0.name)" }
        return """
            \(states.joined(separator: ", ")); waiting: \(queues.joined(separator: ", ")); \
            \(tables.overdue.values.reduce(0, +)) checks overdue
            """
    }
}
