// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A suite about the undo of an import that told wrong sign-ins.
protocol ImportUndoSuite: ConformanceSuite {}

extension ImportUndoSuite {
    static var later: Timestamp { .start + .hours(1) }

    static func signIn(_ user: String, client: String = "app", token: String? = "r", at time: Timestamp = .start) -> ToldSignIn {
        let proof = token.map { ToldSignIn.Proof.refreshToken(Secret("\($0).\(user)")) }
        let address = EmailAddress("\(user)@example.com")
        return ToldSignIn(clientID: client, userID: user, proof: proof, address: address, signedInAt: time)
    }

    func tell(_ signIns: [ToldSignIn], as name: String = "one", key: String = "a", settledAt now: Timestamp? = nil) async throws {
        _ = try await store.ports.append(ImportBatch(importID: name, key: key, signIns: signIns), at: .start)
        if let now { try await store.settleGrants(at: now) }
    }

    func imported(_ users: String...) async throws { try await tell(users.map { Self.signIn($0) }, settledAt: .start) }

    func undo(_ name: String = "one", at now: Timestamp = later) async throws -> UndoneImport {
        var total = UndoneImport()
        while true {
            guard case .importUndone(let undone)? = try await store.ask(.undoImport(name), at: now) else {
                Issue.record("no answer")
                return total
            }
            (total.removed, total.taken) = (total.removed + undone.removed, total.taken + undone.taken)
            (total.claimed, total.stayed) = (undone.claimed, undone.stayed)
            if undone.isDone { return total }
        }
    }

    func users() async throws -> [SQLValue] { try await store.column("SELECT user_id FROM credential_state ORDER BY user_id, client_id") }
}
