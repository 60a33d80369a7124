// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation

/// A thread that sleeps until the server reports an insert, and then looks as long as more inserts come. The first insert after a pause
/// finds the gate open, shuts it and notifies. Later inserts stay silent. The woken thread looks every 10 ms while there is work, and opens
/// the gate before it sleeps. A transaction may insert while the gate is shut, and commit after the last look. The loops' own timers find
/// it.
struct CommitListener: Sendable {
    let address: PostgresAddress

    /// Between two looks, while inserts come.
    fileprivate static let busyMilliseconds: Int32 = 10
    /// Looks without a find before the thread sleeps. Each wait is twice as long as the one before: 630 ms in all.
    fileprivate static let vainLooks = 6
    /// Until the next try while the server is away.
    private static let patienceMilliseconds: Int32 = 1_000

    init(_ address: PostgresAddress) { self.address = address }

    func commits() -> AsyncStream<Void> {
        CommitThread.commits { [address] stop, wake in
            while true {
                do {
                    var gates = try Gates(Connection(address), stop: stop)
                    return try gates.watch(wake)
                } catch {
                    // The loops that have work report errors of the database.
                    var polled = pollfd(fd: stop, events: Int16(POLLIN), revents: 0)
                    if poll(&polled, 1, Self.patienceMilliseconds) > 0 { return }
                }
            }
        }
    }
}

private struct Gates {
    let connection: Connection
    /// Readable after the iteration has ended.
    let stop: Int32
    private var newest = [Int64](repeating: 0, count: Schema.queuesThatTell.count)

    init(_ connection: Connection, stop: Int32) throws {
        self.connection = connection
        self.stop = stop
        let channel = try connection.fetchOne("SELECT \(sql: Schema.channel)")?.text(at: 0) ?? ""
        try connection.change("LISTEN \(sql: channel)")
    }

    mutating func watch(_ wake: () -> Void) throws {
        // Wake once for rows that came before the LISTEN. Their inserts may also have shut a gate.
        _ = try isAnythingNew()
        wake()
        var vain = 0
        var isTold = false
        var falseAlarms = 0
        while !isStopped(within: isTold ? 0 : vain < CommitListener.vainLooks ? CommitListener.busyMilliseconds << Int32(vain) : -1) {
            // Anybody who may connect may also notify.
            if falseAlarms > 0, isStopped(within: pause(after: falseAlarms), orTold: false) { return }
            isTold = try !connection.notifications().isEmpty || isTold
            let isNew = try isAnythingNew()
            if isNew || isTold {
                falseAlarms = isNew ? 0 : falseAlarms + 1
                wake()
                try set(Schema.quiet)
                vain = 0
            } else {
                // Open the gates before the last looks, so that each insert is seen by a look or notifies.
                if vain == 0 { try set(nil) }
                vain += 1
                // Not all at once: a flood with gaps would wake as often as each gap allows.
                if vain == CommitListener.vainLooks, falseAlarms > 0 { falseAlarms -= 1 }
            }
            // A notification that came with the answers is already read, so the descriptor will not become readable for it.
            isTold = try !connection.notifications().isEmpty
        }
    }

    /// Reads only ids above the newest known one. Under a held snapshot, there may be many below.
    private mutating func isAnythingNew() throws -> Bool {
        let answers = try zip(Schema.queuesThatTell, newest).map { queue, newest in
            try connection.send("SELECT MAX(id) FROM \(sql: queue) WHERE id > \(newest)")
        }
        let seen = try answers.map { try connection.rows(of: $0).first?.integer(at: 0) ?? 0 }
        defer { newest = zip(seen, newest).map(max) }
        return zip(seen, newest).contains { $0 > $1 }
    }

    /// - Parameter milliseconds: how long the gates stay shut; nil opens them.
    private func set(_ milliseconds: Int?) throws {
        for queue in Schema.queuesThatTell {
            let until = milliseconds.map { "\(Schema.now) + \($0)" } ?? "0"
            try connection.send("SELECT setval('\(sql: Schema.gate(of: queue))', \(sql: until))")
        }
        try connection.flush()
    }

    /// How long not to look after notifications that told of nothing new, in milliseconds, up to 640. Two inserts at the same moment both
    /// notify, so the first pause is short.
    private func pause(after falseAlarms: Int) -> Int32 {
        CommitListener.busyMilliseconds << Int32(min(falseAlarms - 1, CommitListener.vainLooks))
    }

    /// Sleeps until the server reports something, if it may be told, or the time is over.
    private func isStopped(within milliseconds: Int32, orTold: Bool = true) -> Bool {
        let descriptors = orTold ? [stop, connection.descriptor] : [stop]
        var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        poll(&polled, nfds_t(polled.count), milliseconds)
        return polled[0].revents != 0
    }
}

extension PostgresStore: CommitWatch {
    package func commits() -> AsyncStream<Void> { CommitListener(address).commits() }
}
