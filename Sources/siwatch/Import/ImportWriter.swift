// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import Foundation

/// Tells sign-ins in batches, and never more than the daemon takes within seconds.
///
/// So tokens stand in clear in the queue for seconds only, and a sign-in of today waits behind few others.
struct ImportWriter {
    private let store: any CredentialStore
    private let importID: String
    /// Whether to wait for the daemon.
    private let waits: Bool
    private let clock: WallClock
    private var batch: [ToldSignIn] = []
    /// The key of the last batch.
    private var last: String?
    /// A row of each of the last batches.
    private var window: ArraySlice<Int64> = []
    /// The rows of each batch that this run has told, or has found told.
    private(set) var batches: [[Int64]] = []
    private(set) var told = 0
    private(set) var tokens = 0
    /// Told by an earlier run.
    private(set) var known = 0

    private static let longestWindow = 20
    private static let patience = Duration.seconds(60)
    private static let pollInterval = Duration.milliseconds(20)

    init(_ store: any CredentialStore, importID: String, waits: Bool, clock: WallClock) {
        self.store = store
        self.importID = importID
        self.waits = waits
        self.clock = clock
    }

    mutating func add(_ signIn: ToldSignIn) async throws {
        batch.append(signIn)
        if signIn.proof != nil { tokens += 1 }
        if batch.count == ImportBatch.size { _ = try await flush() }
    }

    /// Tells what was added, and returns its rows.
    mutating func flush() async throws -> [Int64] {
        guard !batch.isEmpty else { return [] }
        let batch = ImportBatch(importID: importID, key: Self.key(of: self.batch), after: last, signIns: self.batch)
        let answer = try await append(batch)
        last = batch.key
        if answer.isKnown { known += self.batch.count } else { told += self.batch.count }
        self.batch = []
        batches.append(answer.rows)
        guard waits, !answer.isKnown, let last = answer.rows.max() else { return answer.rows }
        window.append(last)
        if window.count > Self.longestWindow, let first = window.popFirst() { try await waitUntilSettled([first]) }
        return answer.rows
    }

    /// Waits until the daemon has settled the newest row of each batch. Throws if an undo has taken the import back meanwhile.
    mutating func finish() async throws {
        while let row = window.popFirst() { try await waitUntilSettled([row]) }
        // The last batch once more, which tells nothing: siwatch knows its key, or has forgotten it.
        if let last { _ = try await append(ImportBatch(importID: importID, key: last, after: last, signIns: [])) }
    }

    private func append(_ batch: ImportBatch) async throws -> ToldBatch {
        if let answer = try await store.append(batch, at: clock.now) { return answer }
        throw CommandFailure.failed(
            """
            siwatch no longer knows the lines that this command told before: an undo took the import back, another run told them a day \
            ago, or the database was restored. No other line was told. Repeat the command if you want the import
            """
        )
    }

    func waitUntilSettled(_ rows: [Int64]) async throws {
        let end = ContinuousClock.now + Self.patience
        while try await store.signInOutcomes(rows).values.contains(where: \.isWaiting) {
            guard .now < end else {
                throw CommandFailure.unavailable(
                    """
                    siwatch has not taken the rows of the import within \(Self.patience.text): does it run? siwatch status says so. Repeat the \
                    command, and the import goes on
                    """
                )
            }
            try await Task.sleep(for: Self.pollInterval)
        }
    }

    private static func key(of batch: [ToldSignIn]) -> String {
        SHA256.hash(data: batch.flatMap(\.parts).digestible).map(\.hexadecimal).joined()
    }
}
