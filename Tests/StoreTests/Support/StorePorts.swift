// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import SQLiteStore

/// All that a store has to do, whatever it is made of.
protocol StorePorts: WorkStore, CredentialReader, SigningKeyStore, OperatorDesk {
    func forget(at now: Timestamp) async throws
    func sweep(at now: Timestamp) async throws
    func countMissedNotifications(at now: Timestamp) async throws -> [String: Int]
    func history(of userID: String) async throws -> UserHistory
    func revocations(of userID: String) async throws -> UserRevocations
    func waitingRevocations() async throws -> WaitingRevocationCounts
    func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification]
    func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64]
    func quarantined(_ id: Int64) async throws -> QuarantinedNotification?
    func quarantineCounts() async throws -> [String: Int]
}

extension SQLiteStore: StorePorts {}

extension StorePorts {
    func maintain(at now: Timestamp) async throws {
        try await forget(at: now)
        try await sweep(at: now)
    }
}
