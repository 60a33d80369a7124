// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation
import GRDB
import NIOConcurrencyHelpers

/// A new sealing key takes over from an old one, while everything goes on and processes die.
extension Simulation {
    mutating func turnSealingKeys() async throws {
        let keys = world.with { state in
            if state.ring.sealingKey != state.ring.keys[0] { state.count(.replicaLags) }
            return state.sealingKeys
        }
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
        spreadKeys()
    }

    /// Some steps after the file has changed the process reloads it, and another replica reloads its own and says so.
    private mutating func spreadKeys() {
        let (reloads, isHeard) = (chanceAside(400), chanceAside(300))
        world.with { state in
            if reloads, state.ring.keys != state.sealingKeys {
                state.ring.use(state.sealingKeys)
                state.note("the process reloads \(state.ring.keys)")
            }
            if isHeard, !state.ring.others.isEmpty, state.ring.others != [state.sealingKeys] {
                state.ring.others = [state.sealingKeys]
                state.note("the process hears that the other replica holds \(state.sealingKeys)")
            }
        }
    }

    /// The housekeeping seals a portion anew. In some, a batch is committed between the read and the write.
    private mutating func resealSome() async throws {
        let batch = NIOLockedValueBox<[[Settlement]]>([])
        if chance(500), !waiting.isEmpty { batch.withLockedValue { $0 = [waiting.removeFirst()] } }
        let (store, writer, world) = (process.store, process.writer, self.world)
        let sealer = PlainSealer(ring: { world.with(\.ring) })
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
        world.with { $0.isResealing = portion.resealed > 0 && !portion.isDone }
        guard portion.resealed > 0 else { return }
        world.with { $0.note("\(portion.resealed) tokens are sealed anew", counting: .sealedAnew) }
    }

    /// An operator takes a key out, once each replica seals under the first, nothing stands under the key, and no process holds what it has
    /// sealed. The key stays while a backup may be restored.
    private mutating func retire(_ key: String) async throws {
        try await land()
        let isAgreed = world.with { state in
            ([state.ring.sealingKey] + state.ring.others.map { $0[0] }).allSatisfy { $0 == state.sealingKeys[0] }
        }
        guard !plan.restores, isAgreed, try await process.store.sealedBlobs()[PlainSealer.keyID(of: key)] == nil else { return }
        world.with { state in
            state.sealingKeys.removeLast()
            state.note("the sealing key \(key) is retired", counting: .sealingKeyRetired)
        }
    }

    /// I1: every token opens, to each replica and to a process that starts now.
    func checkSeals() {
        let sealers = world.with { [$0.sealingKeys] + $0.ring.others }.map { ring in PlainSealer { ring } }
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
                let (token, time) = (SealedToken(bytes: Array(sealed)), Timestamp(milliseconds: grantedAt))
                for sealer in sealers { _ = try sealer.open(token, for: credential, grantedAt: time) }
            }
        } catch {
            world.report(Violation(.nothingIsLost, "a token does not open: \(error)"))
        }
    }
}

extension SimulatedWorld.State {
    /// Counts where in a change of the sealing key the process dies.
    mutating func countKeysAtDeath() {
        if ring.keys[0] != sealingKeys[0] { count(.crashBeforeReload) }
        if !ring.keys.allSatisfy({ sealingKeys.contains($0) }) { count(.crashAfterRetire) }
        if isResealing { count(.crashInSweep) }
        isResealing = false
    }
}
