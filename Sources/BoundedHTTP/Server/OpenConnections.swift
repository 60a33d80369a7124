// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers
import NIOCore

/// The open connections. No connection blocks the next one, because idle ones are closed after a time or to make room.
final class OpenConnections: Sendable {
    let limits: ConnectionLimits
    private let state = NIOLockedValueBox(State())

    private struct State {
        var connections: [ObjectIdentifier: Connection] = [:]
        var turns = 0

        /// Removes the oldest connection without a request, or else the oldest of all.
        mutating func removeOldest(besides new: any Channel) -> Connection? {
            let others = connections.filter { $0.key != ObjectIdentifier(new) }
            let oldest = others.min { ($0.value.isBusy ? 1 : 0, $0.value.turn) < ($1.value.isBusy ? 1 : 0, $1.value.turn) }
            return oldest.flatMap { connections.removeValue(forKey: $0.key) }
        }
    }

    private struct Connection {
        var channel: any Channel
        var isBusy = false
        /// The number of the last event on this connection.
        var turn: Int
        var deadline: NIODeadline
        /// Looks at the deadline, which may have moved meanwhile. Setting a timer for each request would cost more than the request.
        var look: (at: NIODeadline, timer: Scheduled<Void>)

        func close() {
            look.timer.cancel()
            channel.close(promise: nil)
        }
    }

    init(_ limits: ConnectionLimits) { self.limits = limits }

    /// Counts a new connection, which is not active yet.
    func opened(_ channel: any Channel) {
        let connection = state.withLockedValue { state in
            state.turns += 1
            let deadline = channel.deadline(after: limits.request)
            let look = look(at: deadline, on: channel)
            state.connections[ObjectIdentifier(channel)] = Connection(channel: channel, turn: state.turns, deadline: deadline, look: look)
            return state.connections.count > limits.count ? state.removeOldest(besides: channel) : nil
        }
        connection?.close()
        channel.closeFuture.whenComplete { [self] _ in
            state.withLockedValue { $0.connections.removeValue(forKey: ObjectIdentifier(channel)) }?.look.timer.cancel()
        }
    }

    func asked(on channel: any Channel) { note(channel, isBusy: true, closedAfter: limits.answer) }

    func answered(on channel: any Channel) { note(channel, isBusy: false, closedAfter: limits.idle) }

    private func note(_ channel: any Channel, isBusy: Bool, closedAfter limit: Duration) {
        let deadline = channel.deadline(after: limit)
        state.withLockedValue { state in
            // A closed connection stays forgotten.
            guard var connection = state.connections[ObjectIdentifier(channel)] else { return }
            state.turns += 1
            connection.turn = state.turns
            connection.isBusy = isBusy
            connection.deadline = deadline
            if deadline < connection.look.at {
                connection.look.timer.cancel()
                connection.look = look(at: deadline, on: channel)
            }
            state.connections[ObjectIdentifier(channel)] = connection
        }
    }

    private func look(at time: NIODeadline, on channel: any Channel) -> (NIODeadline, Scheduled<Void>) {
        (time, channel.eventLoop.scheduleTask(deadline: time) { [self] in endIfLate(channel) })
    }

    private func endIfLate(_ channel: any Channel) {
        let isLate = state.withLockedValue { state in
            guard var connection = state.connections[ObjectIdentifier(channel)] else { return false }
            guard connection.deadline > channel.eventLoop.now else { return true }
            connection.look = look(at: connection.deadline, on: channel)
            state.connections[ObjectIdentifier(channel)] = connection
            return false
        }
        if isLate { channel.close(promise: nil) }
    }
}

extension Channel {
    fileprivate func deadline(after limit: Duration) -> NIODeadline { eventLoop.now + TimeAmount(limit) }
}

package struct ConnectionLimits: Sendable {
    /// Beyond this number, the connection that has been idle for longest is closed.
    package var count: Int
    /// From the connection to the end of the head of its first request, however slowly the bytes come.
    package var request: Duration
    /// From the head of a request to the last byte of the answer that the client takes.
    package var answer: Duration
    /// From an answer to the next request. Scrapers commonly ask once a minute, over one connection.
    package var idle: Duration

    package init(count: Int = 64, request: Duration = .seconds(10), answer: Duration = .seconds(30), idle: Duration = .minutes(2)) {
        self.count = count
        self.request = request
        self.answer = answer
        self.idle = idle
    }
}
