// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Everything from one store to another: copied and proved in one transaction on each side.
///
/// The source commits first, that it is left; then the destination, that all is there. Whoever dies between the two leaves a source on which
/// nothing starts, and `resolve` finds out what became of it.
struct StoreMove {
    let source: any DepartingStore
    let destination: any ArrivingStore
    let progress: any MoveProgress

    /// What ends a move otherwise than by an error of a store.
    enum Failure: Error {
        /// What was read back is not what was there; nothing has moved.
        case notProved(MoveProof)
        /// The source is left, and whether all has arrived could not be seen, or not be written down there.
        case unfinished(Departure, any Error)
    }

    /// - Parameter id: random.
    /// - Returns: the proof.
    func run(id: String, at now: Timestamp) async throws -> MoveProof {
        let proof: MoveProof
        do {
            try await copy()
            proof = try await prove()
        } catch {
            await rollBack()
            throw error
        }
        try await commit(Departure(id: id, destination: destination.place, at: now))
        return proof
    }

    // MARK: Steps

    func copy() async throws {
        try await source.begin()
        try await destination.begin()
        try await destination.clear()
        var count = 0
        for table in StoredTable.all { count += try await source.count(of: table) }
        progress.begin(rows: count)
        var greatestIDs: [String: Int64] = [:]
        for table in StoredTable.all {
            try await copy(table)
            if table.remembersGreatestID { greatestIDs[table.name] = try await source.greatestID(of: table) }
        }
        try await destination.complete(greatestIDs: greatestIDs)
    }

    private func copy(_ table: StoredTable) async throws {
        try await source.beginReading(table)
        try await destination.beginWriting(table)
        var portion = try await source.read()
        while let rows = portion {
            async let next = source.read()
            try await destination.write(rows)
            progress.add(rows: rows.count, to: .copying)
            portion = try await next
        }
        try await destination.endWriting()
    }

    /// - Throws: `Failure.notProved`
    func prove() async throws -> MoveProof {
        let proof = try await MoveProof(of: source, and: destination, progress: progress)
        guard proof.holds else { throw Failure.notProved(proof) }
        return proof
    }

    func rollBack() async {
        progress.end()
        try? await destination.rollBack()
        try? await source.rollBack()
    }

    func commit(_ departure: Departure) async throws {
        progress.end()
        do {
            try await source.depart(departure)
        } catch {
            // Whether or not it is written down there: nothing has arrived, nor will it.
            await rollBack()
            throw error
        }
        do {
            try await destination.arrive(departure.id, from: source.place, at: departure.at)
        } catch {
            guard try await resolve(departure) else { throw error }
            return
        }
        do {
            try await source.confirmDeparture()
        } catch {
            throw Failure.unfinished(departure, error)
        }
    }

    // MARK: A move that was cut short

    /// Finds out whether what has left has arrived, and has the source say so.
    ///
    /// - Returns: false where nothing has arrived: the source is as it was before.
    func resolve(_ departure: Departure) async throws -> Bool {
        do {
            try await destination.rollBack()
            let hasArrived = try await destination.hasArrived(departure.id)
            if hasArrived { try await source.confirmDeparture() } else { try await source.withdrawDeparture() }
            return hasArrived
        } catch {
            throw Failure.unfinished(departure, error)
        }
    }
}
