// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import CredentialCore
import CredentialTables
import CredentialTesting
import Logging
import MetricsTestKit
import NIOConcurrencyHelpers

@testable import CredentialMonitor
@testable import SQLiteStore

/// A monitor of one app with two clients: real SQLite in memory, a held clock, a scripted Apple. Tests run its rounds by hand. Its writer
/// runs for as long as it lives.
final class Monitor: Sendable {
    static let app = "example"
    static let clients = ["com.example.app", "com.example.web"]

    let clock = TestClock()
    let metrics = TestMetrics()
    let endpoint: ScriptedTokenEndpoint
    let store: SQLiteStore
    let policy = RefreshPolicy(interval: .seconds(86_400))
    let budget: RequestBudget
    let codeBudget: RequestBudget
    let lease: LaneLease
    let identities = ScriptedIdentityVerifier()
    let telemetry: Telemetry
    let rules: SettlementRules
    let writer: SettlementWriter
    let progress: LoopProgress
    let canaries: Set<String>
    /// Of the lanes, which meet no rush, and claim from the store as it is.
    private let lanes: LaneContext
    private let writing: Task<Void, Never>

    init(
        requestsPerSecond: Double = 10_000,
        canaries: Set<String> = [],
        isOfAFleet: Bool = false,
        store wrap: (SQLiteStore) -> any WorkStore = { $0 }
    ) throws {
        self.canaries = canaries
        store = try SQLiteStore.inMemory()
        store.trust(PlainSealer(), since: .earliest, nil)
        try store.register([AppClients(name: Self.app, clientIDs: Self.clients)])
        endpoint = ScriptedTokenEndpoint(clock: clock.wallClock)
        lease = isOfAFleet ? LaneLease { [clock] in clock.uptime } : .endless
        budget = RequestBudget(RequestLimits(maxRequestsPerSecond: requestsPerSecond), lease: lease)
        codeBudget = RequestBudget(RequestLimits(maxRequestsPerSecond: requestsPerSecond), lease: lease)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        telemetry = Telemetry(logger: logger, factory: metrics, pseudonym: { _ in "pseudonym" })
        rules = SettlementRules(policy: policy, pollInterval: .seconds(1), startedAt: clock.now, canaries: [Self.app: canaries])
        writer = SettlementWriter(store: wrap(store), rules: rules, clock: clock.wallClock, telemetry: telemetry)
        var lanes = LaneContext(writer, sealer: PlainSealer(), clockGuard: nil)
        (lanes.store, lanes.signInRush) = (store, SignInRush())
        self.lanes = lanes
        progress = LoopProgress(lanes: [.notifications, .grants, .refreshes(app: Self.app)], pollInterval: .seconds(1))
        writing = Task { [writer] in try? await writer.run() }
    }

    deinit { writing.cancel() }

    private func atWork(_ clients: Set<String> = Set(clients), endpoint: (any TokenEndpoint)? = nil, mayRevoke: Bool = true) -> AppAtWork {
        AppAtWork(
            name: Self.app,
            clientIDs: clients,
            endpoint: endpoint ?? self.endpoint,
            budget: budget,
            codeBudget: codeBudget,
            canaries: canaries,
            mayRevoke: mayRevoke
        )
    }

    // MARK: Lanes

    var refreshHandler: RefreshHandler { refreshHandler(breakers: writer.breakers) }

    /// - Parameter clients: siwatch tries these before their time while Apple has not accepted them.
    func refreshHandler(breakers: Breakers, trying clients: Set<String> = [], store: (any WorkStore)? = nil) -> RefreshHandler {
        var lanes = lanes
        (lanes.breakers, lanes.store) = (breakers, store ?? self.store)
        return RefreshHandler(of: atWork(clients), lanes)
    }

    private func context(by clockGuard: ClockGuard?) -> LaneContext {
        var context = self.lanes
        context.clockGuard = clockGuard
        return context
    }

    var grantHandler: GrantHandler { grantHandler(clockGuard: nil) }

    func grantHandler(clockGuard: ClockGuard?) -> GrantHandler { GrantHandler(of: Set(Self.clients), context(by: clockGuard)) }

    var notificationHandler: NotificationHandler { NotificationHandler(verifier: ScriptedVerifier(), cores: 2, lanes) }

    var codeHandler: CodeHandler { codeHandler(clockGuard: nil) }

    func codeHandler(
        clockGuard: ClockGuard?,
        store: (any WorkStore)? = nil,
        telemetry: Telemetry? = nil,
        mayRevoke: Bool = true
    ) -> CodeHandler {
        let made = ClockGuard(clock: clock.wallClock, uptime: { [clock] in clock.uptime }, telemetry: self.telemetry)
        var lanes = context(by: clockGuard ?? made)
        (lanes.store, lanes.telemetry) = (store ?? self.store, telemetry ?? self.telemetry)
        return CodeHandler(apps: [atWork(mayRevoke: mayRevoke)], verifier: identities, lanes)
    }

    var revocationHandler: RevocationHandler { revocationHandler() }

    /// - Parameter isConfigured: whether the app is.
    func revocationHandler(
        endpoint: (any TokenEndpoint)? = nil,
        mayRevoke: Bool = true,
        isConfigured: Bool = true,
        clockGuard: ClockGuard? = nil
    ) -> RevocationHandler {
        RevocationHandler(apps: isConfigured ? [atWork(endpoint: endpoint, mayRevoke: mayRevoke)] : [], context(by: clockGuard))
    }

    func loop<Handler: WorkHandler>(
        _ handler: Handler,
        wakeups: Wakeups = Wakeups(every: .seconds(3600)),
        mayClaim: @escaping @Sendable () -> Bool = { true }
    ) -> ClaimLoop<Handler> { ClaimLoop(handler, writer: writer, wakeups: wakeups, progress: progress, mayClaim: mayClaim) }

    /// Settles, while so many waits of a task end.
    @discardableResult
    func settle(_ handler: some WorkHandler, through waits: Int, of duration: Duration = .seconds(1)) async throws -> Int {
        async let settled = settle(handler)
        for _ in 0..<waits {
            try await clock.sleeper()
            clock.advance(by: duration)
        }
        return try await settled
    }

    @discardableResult
    func settle(_ handler: some WorkHandler, after duration: Duration = .zero) async throws -> Int {
        clock.advance(by: duration)
        var count = 0
        while case let round = try await loop(handler).round(), round > 0 { count += round }
        return count
    }

    // MARK: Actions of an operator

    func ask(_ request: OperatorRequest) async throws -> OperatorAnswer? {
        let handler = operatorRequestHandler(reading: store)
        let id = try await store.submit(request, at: clock.now)
        while try await handler.handleNext() {}
        return try await store.answer(to: id)
    }

    func operatorRequestHandler(reading reader: any BreakerReader) -> OperatorRequestHandler {
        OperatorRequestHandler(
            desk: store,
            reader: reader,
            rules: { RecheckRules(refreshInterval: .seconds(86_400), requestsPerSecond: 50) },
            wakeups: Wakeups(every: .seconds(3600)),
            progress: progress,
            lanes
        )
    }

    func refreshes(_ outcome: String) -> Int64 { counter("siwatch_refreshes_total", ("outcome", outcome)) }

    func counter(_ name: String, _ labels: (String, String)...) -> Int64 {
        (try? metrics.expectCounter(name, [("app", Self.app)] + labels).totalValue) ?? 0
    }

    func gauge(_ name: String) -> Double? { try? metrics.expectMeter(name, [("app", Self.app)]).lastValue }
    var storedBreaker: RejectionBreaker? { get async throws { try await store.breakers()[Self.app] } }
    func asked(_ user: String) -> Int { endpoint.calls.count { $0.credential.userID == user } }
    func day() async throws { try await settle(refreshHandler, after: .seconds(91_000)) }
}

/// A verifier whose payloads are words: `type user milliseconds`, or the name of a rejection, or `wait`.
struct ScriptedVerifier: NotificationVerifier {
    func verify(_ payload: [UInt8], receivedAt: Timestamp) async throws(VerificationError) -> VerifiedNotification {
        let words = String(decoding: payload, as: UTF8.self).split(separator: " ").map(String.init)
        if words == ["wait"] { throw .keyNotYetKnown(retryAt: receivedAt.advanced(by: .seconds(65))) }
        guard words.count == 3, let time = Int64(words[2]) else {
            throw .rejected(RejectionReason(rawValue: words.first ?? "") ?? .malformed, detail: "scripted")
        }
        let kind: Event.Kind =
            switch words[0] {
            case "consent-revoked": .consentRevoked
            case "account-deleted": .accountDeleted
            case "email-disabled": .emailDisabled(EmailAddress("x@privaterelay.appleid.com"))
            default: .unknown
            }
        let (id, event) = ("jti-\(words[1])-\(words[2])", Event(kind, at: Timestamp(milliseconds: time)))
        return VerifiedNotification(clientID: Monitor.clients[0], userID: words[1], tokenID: id, type: words[0], event: event)
    }
}

/// A verifier whose id_tokens are the names of their users, or a word for an error: `forged`, or `new-key` while the key is unknown.
final class ScriptedIdentityVerifier: IdentityTokenVerifier {
    private let state = NIOLockedValueBox((keys: 1, hasNewKey: false, nonces: [String?]()))

    var hasKeys: Bool { state.withLockedValue { $0.keys > 0 } }
    var nonces: [String?] { state.withLockedValue { $0.nonces } }
    func forgetKeys() { state.withLockedValue { $0.keys = 0 } }
    func fetchKeys() { state.withLockedValue { $0.keys = 1 } }
    func publishNewKey() { state.withLockedValue { $0.hasNewKey = true } }

    func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity {
        let hasNewKey = state.withLockedValue { state in
            state.nonces.append(nonce)
            return state.hasNewKey
        }
        if token.reveal == "forged" { throw .rejected(.badSignature, detail: "KEY") }
        if token.reveal == "new-key", !hasNewKey { throw .keyNotYetKnown(retryAt: now.advanced(by: .seconds(65))) }
        let second = Timestamp(milliseconds: now.milliseconds / 1000 * 1000)
        return VerifiedIdentity(userID: token.reveal, issuedAt: second, address: EmailAddress("\(token.reveal)@example.com"))
    }
}

extension EndpointAnswer<ExchangeNews> {
    /// - Parameter identity: the subject of the id_token, if it differs from the named user.
    static func issued(_ user: String, token: String? = "r", as identity: String? = nil) -> EndpointAnswer<ExchangeNews> {
        .issued(IssuedTokens(refreshToken: token.map(Secret.init), identityToken: Secret(identity ?? user), namedUserID: user))
    }

    static var lost: Self { .unavailable("timeout", isAnswerLost: true) }
    static var down: Self { .unavailable("status 503", isAnswerLost: false) }
    static var used: Self { .refused(.codeUsed, detail: "invalid_grant: The code has already been used.") }
}
