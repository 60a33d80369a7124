// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Hummingbird

struct Deletions: Sendable {
    let desk: any BackendDesk
    let queue: AppendQueue
    let clients: Set<String>

    func tell(_ request: Request, by client: String) async throws(Problem) -> Response {
        var body = try await Members(ofBody: request)
        let credential = CredentialID(clientID: body.requiredText("client_id", .name), userID: body.requiredText("user_id", .name))
        let requestedAt = body.integer("requested_at", Timestamp.legalMilliseconds).map(Timestamp.init(milliseconds:))
        try body.finish()
        guard clients.contains(credential.clientID) else { throw Problem.unknownClient }
        let parts = ["deletion", credential.clientID, credential.userID] + (requestedAt.map { ["\($0.milliseconds)"] } ?? [])
        let key = try request.key(of: client, for: parts)
        let row = try await queue.append(.deletion(credential, requestedAt: requestedAt, key: key)).row()
        // The request is kept by now. If its outcome cannot be read, the caller asks again.
        let outcome =
            (try? await outcome(of: row))
            ?? DeletionOutcome(row: row, userID: credential.userID, isWaiting: true, isHeld: false, receipts: [])
        var response = Response.json(DeletionDocument(outcome), .accepted)
        response.headers[.location] = "/v1/deletions/\(row)"
        return response
    }

    func show(_ row: RowReference, _ request: Request) async throws(Problem) -> Response {
        try Members(ofQuery: request).finish()
        guard let outcome = try await outcome(of: row) else { throw Problem(.notFound) }
        return .json(DeletionDocument(outcome))
    }

    /// - Returns: nil if the receipt is past its retention, or the row was lost in a restore and another one has its number.
    private func outcome(of row: RowReference) async throws(Problem) -> DeletionOutcome? {
        let found = try await Problem.reading { try await desk.deletionOutcome(row.id) }
        guard var outcome = found, row.names(outcome.row, of: outcome.userID) else { return nil }
        outcome.row = row
        return outcome
    }
}

private struct DeletionDocument: Encodable {
    var id: RowReference
    var outcome: String
    var requestedAt: Timestamp
    var tokens: [DeletionOutcome.Receipt]

    init(_ outcome: DeletionOutcome) {
        (id, requestedAt, tokens) = (outcome.row, outcome.row.time, outcome.receipts)
        self.outcome = outcome.isHeld ? "held" : outcome.isWaiting ? "waiting" : "done"
    }
}
