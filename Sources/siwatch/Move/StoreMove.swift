// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// Moves everything from one store to another: copies and proves it in one transaction on each side.
///
/// First the source commits its departure, then the destination its arrival. If siwatch dies in between, nothing starts on the source, and
/// `resolve` finds out what arrived.
struct StoreMove {
    let source: any TableContents
    let destination: any TableContents
    let progress: ProgressLine

    /// Failures of a move other than errors of a store.
    enum Failure: Error {
        /// The data that was read back differs from the original. Nothing has moved.
        case notProved(MoveProof)
        /// The source has departed. Whether all has arrived could not be read, or could not be written into the source.
        case unfinished(Departure, any Error)
    }

    /// - Parameter id: random.
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

    func copy() async throws {
        try await source.begin()
        try await destination.begin()
        try await destination.clear()
        var count = 0
        for table in StoredTable.all { count += try await source.count(of: table) }
        progress.begin("copying", of: count)
        var greatestIDs: [String: Int64] = [:]
        for table in StoredTable.all {
            try await copy(table)
            if table.remembersGreatestID { greatestIDs[table.name] = try await source.greatestID(of: table) }
        }
        try await destination.complete(greatestIDs: greatestIDs)
    }

    private func copy(_ table: StoredTable) async throws {
        try await source.beginReading(table)
        let insertion = table.insertion
        var portion = try await source.read()
        while let rows = portion {
            async let next = source.read()
            try await destination.write(rows, by: insertion)
            progress.add(rows.count)
            portion = try await next
        }
    }

    func prove() async throws -> MoveProof {
        // On both sides.
        progress.next("proving", passes: 2)
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
            // Nothing has arrived and nothing will, even if the source has written its departure.
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

    /// Finds out whether the departed data has arrived, and writes the answer into the source. If not, the source is as before.
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
