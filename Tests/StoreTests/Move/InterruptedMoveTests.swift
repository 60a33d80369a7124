// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import PostgresStore
import Testing

@testable import siwatch

@Suite(.timeLimit(.minutes(10))) struct InterruptedMoveTests {
    private let scene: MoveScene

    init() async throws { scene = try await MoveScene() }

    /// The process dies before the destination has committed, or after that and before the source knows.
    @Test(arguments: [true, false]) func whatHasNotArrivedIsWhereItWasAndTheRestIsNotMovedTwice(_ hasArrived: Bool) async throws {
        let departure = Departure(id: "1", destination: "there", at: .start)
        do {
            let dying = try scene.move()
            try await dying.copy()
            try await dying.source.depart(departure)
            if hasArrived { try await dying.destination.arrive("1", from: "here", at: .start) }
        }
        #expect(try scene.departure() == departure)
        await #expect(throws: (any Error).self) { try await scene.store.receive() }
        // An operator has already started siwatch there.
        if hasArrived { try await StoreUnderTest(PostgresStore.open(scene.address)).receive() }

        let next = try scene.move()
        #expect(next.source.departure == departure)
        #expect(try await next.resolve(departure) == hasArrived)
        if !hasArrived {
            #expect(try scene.departure() == nil)
            try await scene.store.receive()
            _ = try await next.run(id: "2", at: .start)
        }
        #expect(try scene.departure()?.isComplete == true)
    }

    @Test(arguments: [true, false]) func theSameForASchema(_ hasArrived: Bool) async throws {
        _ = try await scene.move().run(id: "1", at: .start)
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        let departure = Departure(id: "2", destination: file.path, at: .start)
        do {
            let dying = try scene.back(to: file)
            try await dying.copy()
            try await dying.source.depart(departure)
            if hasArrived { try await dying.destination.arrive("2", from: "there", at: .start) } else { await dying.rollBack() }
        }
        #expect(throws: StoreOpenError.self) { try PostgresStore.open(scene.address) }
        let next = try scene.back(to: file)
        #expect(next.source.departure == departure)
        #expect(try await next.resolve(departure) == hasArrived)
        if hasArrived {
            #expect(throws: StoreOpenError.self) { try PostgresStore.open(scene.address) }
        } else {
            try await StoreUnderTest(PostgresStore.open(scene.address)).receive()
            _ = try await next.run(id: "3", at: .start)
        }
    }
}
