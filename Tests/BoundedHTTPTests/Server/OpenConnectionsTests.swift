// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore
import NIOEmbedded
import Testing

@testable import BoundedHTTP

struct OpenConnectionsTests {
    private let loop = EmbeddedEventLoop()

    private func open(_ connections: OpenConnections) throws -> EmbeddedChannel {
        let channel = EmbeddedChannel(loop: loop)
        connections.opened(channel)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    @Test func aRequestHasTenSeconds() throws {
        let connections = OpenConnections(ConnectionLimits())
        let (silent, quick) = (try open(connections), try open(connections))
        loop.advanceTime(by: .seconds(9))
        connections.asked(on: quick)
        connections.answered(on: quick)
        loop.advanceTime(by: .seconds(1))
        #expect(!silent.isActive && quick.isActive)
    }

    @Test func anAnswerHasHalfAMinuteAndTheNextRequestTwo() throws {
        let connections = OpenConnections(ConnectionLimits())
        let (slow, kept) = (try open(connections), try open(connections))
        connections.asked(on: slow)
        connections.asked(on: kept)
        connections.answered(on: kept)
        loop.advanceTime(by: .seconds(29))
        #expect(slow.isActive)
        loop.advanceTime(by: .seconds(1))
        #expect(!slow.isActive && kept.isActive)
        loop.advanceTime(by: .seconds(89))
        #expect(kept.isActive)
        loop.advanceTime(by: .seconds(1))
        #expect(!kept.isActive)
    }

    @Test func theOldestThatAsksForNothingGivesWay() throws {
        let connections = OpenConnections(ConnectionLimits(count: 3))
        let channels = [try open(connections), try open(connections), try open(connections)]
        connections.asked(on: channels[0])
        connections.answered(on: channels[0])
        connections.asked(on: channels[1])
        let next = try open(connections)
        #expect(channels.map(\.isActive) == [true, true, false])
        connections.asked(on: next)
        connections.asked(on: channels[0])
        // The server is answering all of them, and the first has had its time.
        let last = try open(connections)
        #expect(channels.map(\.isActive) == [true, false, false])
        #expect(next.isActive && last.isActive)
    }

    @Test func whoHasLeftCountsNoMore() throws {
        let connections = OpenConnections(ConnectionLimits(count: 1))
        let gone = try open(connections)
        try gone.close().wait()
        connections.answered(on: gone)
        let next = try open(connections)
        let last = try open(connections)
        #expect(!next.isActive && last.isActive)
    }
}
