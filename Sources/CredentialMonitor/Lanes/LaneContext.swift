// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

package struct LaneContext: Sendable {
    var store: any WorkStore
    let sealer: any TokenSealer
    let policy: RefreshPolicy
    let revocationLimit: RevocationLimitRules
    var breakers: Breakers
    let intake: GrantIntake
    var signInRush: SignInRush
    let clock: WallClock
    var clockGuard: ClockGuard?
    var telemetry: Telemetry

    /// - Parameter clockGuard: knows Apple's clock. Without it, ours counts as right.
    package init(_ writer: SettlementWriter, sealer: any TokenSealer, clockGuard: ClockGuard?) {
        (store, policy, breakers, intake) = (writer.store, writer.rules.policy, writer.breakers, writer.intake)
        revocationLimit = writer.rules.revocationLimit
        (signInRush, clock, telemetry) = (writer.signInRush, writer.clock, writer.telemetry)
        self.sealer = sealer
        self.clockGuard = clockGuard
    }
}

/// A part of a lane, which says `clock` and `store` for those of its context.
protocol LanePart: Sendable {
    var context: LaneContext { get }
}

extension LanePart {
    var store: any WorkStore { context.store }
    var sealer: any TokenSealer { context.sealer }
    var policy: RefreshPolicy { context.policy }
    var breakers: Breakers { context.breakers }
    var clock: WallClock { context.clock }
    var telemetry: Telemetry { context.telemetry }

    var trusted: Timestamp? { if let clockGuard = context.clockGuard { clockGuard.trusted } else { clock.now } }
    /// Now by Apple's clock, as far as siwatch knows it.
    var appleTime: Timestamp { context.clockGuard?.appleTime ?? clock.now }

    /// Nil if the token cannot be opened, as the log then says.
    func open(_ sealed: SealedToken, of credential: CredentialID, in app: String, grantedAt: Timestamp) -> Secret? {
        do {
            return try sealer.open(sealed, for: credential, grantedAt: grantedAt)
        } catch {
            telemetry.log(.tokenUnreadable, telemetry.metadata(app, credential).adding(error: error))
            return nil
        }
    }
}

package struct AppAtWork: Sendable {
    package var name: String
    package var clientIDs: Set<String>
    /// Apple, asked with the app's key.
    package var endpoint: any TokenEndpoint
    /// The permits of checks and revocations.
    package var budget: RequestBudget
    /// The permits of codes: of their own, so that no backlog of checks delays a sign-in.
    package var codeBudget: RequestBudget
    /// Users of the app whose tokens are asked about first.
    package var canaries: Set<String>
    package var mayRevoke: Bool

    package init(
        name: String,
        clientIDs: Set<String>,
        endpoint: any TokenEndpoint,
        budget: RequestBudget,
        codeBudget: RequestBudget,
        canaries: Set<String> = [],
        mayRevoke: Bool = true
    ) {
        self.name = name
        self.clientIDs = clientIDs
        self.endpoint = endpoint
        self.budget = budget
        (self.codeBudget, self.canaries, self.mayRevoke) = (codeBudget, canaries, mayRevoke)
    }
}
