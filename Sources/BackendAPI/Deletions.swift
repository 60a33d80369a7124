// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Hummingbird

/// Accounts that their users have deleted.
struct Deletions: Sendable {
    let desk: any BackendDesk
    let queue: AppendQueue
    let clients: Set<String>

    func tell(_ request: Request, by client: String) async throws(Problem) -> Response {
        let key = try request.idempotencyKey()
        var body = try await Body(of: request)
        let credential = CredentialID(clientID: body.requiredText("client_id", .name), userID: body.requiredText("user_id", .name))
        try body.finish()
        guard clients.contains(credential.clientID) else { throw Problem.unknownClient }
        let requestKey = key.map { RequestKey(client: client, key: $0, of: ["deletion", credential.clientID, credential.userID]) }
        let id = try await queue.append(.deletion(credential, key: requestKey)).row()
        let outcome = try await outcome(of: id)
        var response = Response.json(outcome.map(DeletionDocument.init) ?? DeletionDocument(id: id, outcome: "done"), .accepted)
        response.headers[.location] = "/v1/deletions/\(id)"
        return response
    }

    func show(_ id: Int64, _ request: Request) async throws(Problem) -> Response {
        try Query(of: request).finish()
        guard let outcome = try await outcome(of: id) else { throw Problem(.notFound) }
        return .json(DeletionDocument(outcome))
    }

    private func outcome(of id: Int64) async throws(Problem) -> DeletionOutcome? {
        do {
            return try await desk.deletionOutcome(id)
        } catch {
            throw Problem(.unavailable)
        }
    }
}

private struct DeletionDocument: Encodable {
    var id: Int64
    var outcome: String
    var requestedAt: Timestamp?
    var tokens: [Token] = []

    struct Token: Encodable {
        var clientId: String
        var outcome: String
        var reason: String?
        var settledAt: Timestamp?
    }
}

extension DeletionDocument {
    init(_ outcome: DeletionOutcome) {
        id = outcome.id
        self.outcome = outcome.isHeld ? "held" : outcome.isWaiting ? "waiting" : "done"
        requestedAt = outcome.requestedAt
        tokens = outcome.receipts.map {
            Token(clientId: $0.clientID, outcome: $0.outcome, reason: $0.reason, settledAt: $0.settledAt)
        }
    }
}
