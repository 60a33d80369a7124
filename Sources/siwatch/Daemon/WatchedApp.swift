// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import CredentialMonitor
import Foundation

/// An app at work, and the parts of it that a reload reaches.
struct WatchedApp {
    let atWork: AppAtWork
    let refreshes: RefreshHandler
    let wakeups: Wakeups
    private let teamID: String
    let secrets: ClientSecrets
    let endpoint: AppleTokenEndpoint
    private let mayAsk: (@Sendable () -> Bool)?

    init(
        _ app: Configuration.App,
        _ keys: Keys,
        _ apple: AppleAccess,
        _ shared: LaneContext,
        _ wakeups: Wakeups,
        _ context: DaemonContext
    ) {
        let (configuration, membership, clock) = (context.configuration, context.membership, context.clock)
        self.wakeups = wakeups
        teamID = app.teamID
        // Apple judges the dates of a client secret by its own clock.
        let appleClock = clock.showing { [clockGuard = context.clockGuard] in clockGuard.appleTime }
        secrets = ClientSecrets(teamID: app.teamID, key: keys.clientSecretKeys[app.name]![0], clock: appleClock)
        mayAsk = membership.mayAsk(for: app.name)
        endpoint = AppleTokenEndpoint(
            url: configuration.apple.tokenEndpoint.absoluteString,
            revocationURL: configuration.apple.revocationEndpoint.absoluteString,
            secrets: secrets,
            transport: apple.transport,
            clock: clock,
            mayAsk: mayAsk
        )
        let lease = membership.lease(of: .app(app.name))
        atWork = AppAtWork(
            name: app.name,
            clientIDs: Set(app.clientIDs),
            endpoint: endpoint,
            budget: RequestBudget(configuration.refresh.limits, lease: lease),
            codeBudget: CodeHandler.budget(configuration.refresh.limits, lease: lease),
            canaries: Set(app.canaries),
            mayRevoke: app.revocations
        )
        refreshes = RefreshHandler(of: atWork, shared)
    }

    /// Whether this process asks Apple for the app now, and no other replica.
    var isAsked: Bool { mayAsk?() ?? true }

    func use(_ limits: RequestLimits) {
        for budget in budgets { budget.limits = limits }
    }

    /// Signs with the key of a reload. A key belongs to its team. A key that replaces a wrong one is tried at once.
    /// Returns whether the key is another one than before.
    func use(_ keys: Keys, of configuration: Configuration) -> Bool {
        let isSameTeam = configuration.apps.contains { $0.name == atWork.name && $0.teamID == teamID }
        guard isSameTeam, let key = keys.clientSecretKeys[atWork.name]?.first, secrets.use(key) else { return false }
        for budget in budgets { budget.resume() }
        return true
    }

    private var budgets: [RequestBudget] { [atWork.budget, atWork.codeBudget] }
}
