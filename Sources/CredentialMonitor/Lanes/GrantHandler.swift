// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging

/// Judges claimed grants. It seals their tokens, so that no token stays in clear.
package struct GrantHandler: WorkHandler, LanePart {
    let context: LaneContext
    private let clients: Set<String>

    package let lane = Lane.grants
    package let width = 1

    private static let chunk = 512
    private static let lease = Duration.seconds(60)

    package init(of clients: Set<String>, _ context: LaneContext) {
        self.clients = clients
        self.context = context
    }

    package func claim(upTo slots: Int) async throws -> [[ClaimedGrant]] {
        let grants = try await store.claimGrants(upTo: Self.chunk, at: clock.now, lease: Self.lease)
        context.intake.turn(at: clock.now)
        return grants.isEmpty ? [] : [grants]
    }

    package func resolve(_ work: [ClaimedGrant]) async -> [Settlement] {
        let now = clock.now
        let (trusted, ahead) = (trusted, appleTime.duration(to: now))
        var sealed = 0
        var unknown: [String] = []
        var early = 0
        let settlements = work.compactMap { grant -> Settlement? in
            do {
                let verdict = try verdict(on: grant, at: now, ahead: ahead, trusted: trusted)
                if case .accepted(let grant, _, _) = verdict, grant.token != nil { sealed += 1 }
                if case .unknownClient = verdict, let clientID = grant.content?.credential.clientID { unknown.append(clientID) }
                if case .inFuture = verdict { early += 1 }
                return .grant(grant, verdict)
            } catch {
                // The fault is ours, not the row's. The row stays claimed and becomes due again.
                telemetry.log(.sealingFailed, ["error": "\(error)"])
                return nil
            }
        }
        telemetry.count(.seals, by: sealed)
        if !unknown.isEmpty { telemetry.unknownClients(Set(unknown), grants: unknown.count) }
        if early > 0 { telemetry.log(.grantsFromFuture, ["count": "\(early)"]) }
        return settlements
    }

    /// - Parameter ahead: how far our clock is ahead of Apple's.
    private func verdict(on grant: ClaimedGrant, at now: Timestamp, ahead: Duration, trusted: Timestamp?) throws -> GrantVerdict {
        if grant.claim.isPoison { return .rejected(.poison) }
        guard let content = grant.content else { return .rejected(.malformed) }
        guard clients.contains(content.credential.clientID) else { return .unknownClient(lookedAt: trusted) }
        var accepted = Grant(grantedAt: grant.grantedAt, token: nil, address: content.address)
        var token = content.refreshToken
        var lost: DeliveryError?
        if let sealed = content.sealedToken {
            do throws(DeliveryError) {
                let delivered = try sealer.open(delivered: sealed, for: content.credential)
                // The row may have the time of its insert.
                (token, accepted.grantedAt) = (delivered.token, delivered.grantedAt)
            } catch {
                lost = error
            }
        }
        let due = accepted.grantedAt.advanced(by: ahead - SettlementRules.longestLead)
        guard due <= now else { return .inFuture(due: due, lookedAt: trusted) }
        accepted.token = try token.map { try sealer.sealed($0, for: content.credential, grantedAt: accepted.grantedAt) }
        return .accepted(accepted, content.credential, lost: lost)
    }
}
