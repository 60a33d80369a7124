// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables

@testable import CredentialCore

extension TableStore {
    fileprivate func ask<Value: Sendable>(_ body: @escaping @Sendable (any TableConnection) throws -> Value) async throws -> Value {
        try await query { try body($0) }
    }
}

/// The parts of an overview, each by itself.
extension CredentialStore {
    private func read<Value: Sendable>(_ body: @escaping @Sendable (any TableConnection) throws -> Value) async throws -> Value {
        try await (self as! any TableStore).ask(body)
    }

    func queues() async throws -> [QueueStatus] { try await overview(Overview.Question(at: .start)).queues }
    func dueRows(at now: Timestamp) async throws -> [String: Int] { try await overview(Overview.Question(at: now)).due }
    func credentialCounts() async throws -> [CredentialCount] { try await read { try $0.credentialCounts() } }
    func checks() async throws -> CheckStatus? { try await read { try $0.checks() } }

    func unknownCanaries(_ userIDs: [String], of app: String) async throws -> [String] {
        try await read { try $0.unknownCanaries(userIDs, of: app) }
    }

    func tokens(of app: String, fromTeamsBesides teamID: String, upTo limit: Int) async throws -> [String: Int] {
        try await read { try $0.tokens(of: app, fromTeamsBesides: teamID, upTo: limit) }
    }

    func newestNotifications(upTo limit: Int) async throws -> [Timestamp] { try await read { try $0.newestNotifications(upTo: limit) } }

    func waitingGrants(at now: Timestamp, upTo limit: Int) async throws -> WaitingGrants {
        try await read { connection in
            var waiting = WaitingGrants()
            try connection.count(&waiting, at: now, upTo: limit)
            return waiting
        }
    }

    func rejectedSignIns(since time: Timestamp) async throws -> [RejectedSignIns] { try await read { try $0.rejectedSignIns(since: time) } }
    func waitingRevocations() async throws -> WaitingRevocations { try await read { try $0.waitingRevocations() } ?? WaitingRevocations() }

    func refusedClients(at now: Timestamp, upTo limit: Int) async throws -> [RefusedClient] {
        try await read { try $0.refusedClients(at: now, upTo: limit) }
    }
}
