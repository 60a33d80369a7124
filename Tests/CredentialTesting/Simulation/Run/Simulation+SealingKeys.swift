// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation
import GRDB
import NIOConcurrencyHelpers

/// A new sealing key takes over from an old one, while everything goes on and processes die.
extension Simulation {
    private var sealer: PlainSealer { PlainSealer { [world] in world.with(\.sealingKeys) } }

    mutating func turnSealingKeys() async throws {
        let keys = world.with(\.sealingKeys)
        let isImpatient = chance(100)
        if keys.count == 1 || keys.count == 2 && isImpatient {
            world.with { state in
                state.sealingKeys.insert("k\(100 + steps)", at: 0)
                state.note("sealing keys \(state.sealingKeys)")
            }
        } else if chance(300) {
            try await retire(keys[keys.count - 1])
        } else {
            try await resealSome()
        }
        checkSeals()
    }

    /// The housekeeping seals a portion anew. In some, a batch is committed between the read and the write.
    private mutating func resealSome() async throws {
        let batch = NIOLockedValueBox<[[Settlement]]>([])
        if chance(500), !waiting.isEmpty { batch.withLockedValue { $0 = [waiting.removeFirst()] } }
        let (store, writer, world, sealer) = (process.store, process.writer, self.world, self.sealer)
        let portion = try await world.call {
            try await store.reseal(upTo: 2) { blob in
                let settlements = batch.withLockedValue { batch in batch.isEmpty ? nil : batch.removeFirst() }
                if let settlements, !settlements.isEmpty {
                    try await writer.settle(settlements)
                    world.with { $0.count(.sealedAnewBesideACommit) }
                }
                guard case .token(let sealed, let credential, let grantedAt) = blob else { return nil }
                return try sealer.reseal(sealed, for: credential, grantedAt: grantedAt)?.bytes
            }
        }
        // There was nothing to seal.
        waiting.insert(contentsOf: batch.withLockedValue { $0 }, at: 0)
        guard portion.resealed > 0 else { return }
        world.with { $0.note("\(portion.resealed) tokens are sealed anew", counting: .sealedAnew) }
    }

    /// An operator takes a key out, once nothing stands under it and no process holds what it has sealed. The key stays while a backup
    /// may be restored.
    private mutating func retire(_ key: String) async throws {
        try await land()
        guard !plan.restores, try await process.store.sealedBlobs()[PlainSealer.keyID(of: key)] == nil else { return }
        world.with { state in
            state.sealingKeys.removeLast()
            state.note("the sealing key \(key) is retired", counting: .sealingKeyRetired)
        }
    }

    /// I1: every token opens.
    func checkSeals() {
        do {
            let rows = try database.rows(
                """
                SELECT k.client_id, c.user_id, c.sealed_token, c.token_granted_at
                  FROM credential c JOIN client k ON k.id = c.client WHERE c.sealed_token IS NOT NULL
                 UNION ALL
                SELECT k.client_id, c.user_id, c.former_sealed, c.former_granted_at
                  FROM credential c JOIN client k ON k.id = c.client WHERE c.former_sealed IS NOT NULL
                 UNION ALL
                SELECT k.client_id, r.user_id, r.sealed_token, r.token_granted_at
                  FROM revocation r JOIN client k ON k.id = r.client
                """
            )
            for row in rows {
                let credential = CredentialID(clientID: row[0], userID: row[1])
                let (sealed, grantedAt): (Data, Int64) = (row[2], row[3])
                _ = try sealer.open(SealedToken(bytes: Array(sealed)), for: credential, grantedAt: Timestamp(milliseconds: grantedAt))
            }
        } catch {
            world.report(Violation(.nothingIsLost, "a token does not open: \(error)"))
        }
    }
}
