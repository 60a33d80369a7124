// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A due credential → what Apple says of its token. One for each app, so that none waits for another.
package struct RefreshHandler: WorkHandler {
    private let app: String
    private let store: any WorkStore
    private let endpoint: any TokenEndpoint
    private let sealer: any TokenSealer
    private let policy: RefreshPolicy
    private let budget: RequestBudget
    private let clock: WallClock
    private let telemetry: Telemetry

    package let lane: Lane

    package init(
        app: String,
        store: any WorkStore,
        endpoint: any TokenEndpoint,
        sealer: any TokenSealer,
        policy: RefreshPolicy,
        budget: RequestBudget,
        clock: WallClock,
        telemetry: Telemetry
    ) {
        self.app = app
        self.store = store
        self.endpoint = endpoint
        self.sealer = sealer
        self.policy = policy
        self.budget = budget
        self.clock = clock
        self.telemetry = telemetry
        lane = .refreshes(app: app)
    }

    package var width: Int { budget.limits.maxConcurrentRequests }

    /// Takes permits first and claims exactly that many, so that no claim waits for a permit.
    package func claim(upTo slots: Int) async throws -> [DueCredential] {
        let permits = budget.take(upTo: slots, at: clock.now)
        guard permits > 0 else { return [] }
        do {
            let due = try await store.claimDueCredentials(of: app, upTo: permits, at: clock.now, policy: policy)
            budget.giveBack(permits - due.count)
            return due
        } catch {
            budget.giveBack(permits)
            throw error
        }
    }

    package func retryDelay() -> Duration? {
        budget.isExhausted(at: clock.now) ? RequestBudget.refill : nil
    }

    package func resolve(_ work: DueCredential) async -> [Resolution] {
        let requestedAt = clock.now
        let response = await ask(work)
        let answeredAt = clock.now
        switch response.outcome {
        case .valid:
            if budget.resume() { telemetry.appResumed(app) }
        case .misconfigured(let error):
            if let pause = budget.pauseForMisconfiguration(askedAt: requestedAt, at: answeredAt) {
                telemetry.appPaused(app, client: work.id.clientID, error: error, pause: pause)
            }
        case .throttled(let retryAfter):
            budget.pause(for: min(retryAfter ?? .seconds(30), .seconds(3600)), at: answeredAt)
        case .rejected, .ambiguous, .unavailable:
            // A dead token answers `invalid_grant` whoever asks: it says nothing of our configuration.
            break
        }
        telemetry.refreshAnswered(app, work.id, response.outcome)
        return [
            .refresh(work, RefreshAttempt(app: app, response: response, requestedAt: requestedAt, answeredAt: answeredAt))
        ]
    }

    private func ask(_ work: DueCredential) async -> RefreshResponse {
        let token: Secret
        do {
            token = try sealer.open(work.sealed, for: work.id, grantedAt: work.token.grantedAt)
        } catch {
            telemetry.tokenUnreadable(app, work.id, error)
            return RefreshResponse(
                .unavailable("the stored token cannot be opened"),
                by: ClientIdentity(clientID: work.id.clientID, keyID: "")
            )
        }
        telemetry.requestStarted()
        let start = ContinuousClock.now
        defer { telemetry.requestEnded(after: ContinuousClock.now - start) }
        return await endpoint.refresh(token, of: work.id)
    }
}
