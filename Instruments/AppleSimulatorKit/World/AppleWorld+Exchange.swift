// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A request on arrival: its subject, and the fault that hits it.
struct Arrival: Sendable {
    let endpoint: Endpoint
    let subject: Subject?
    let fault: Fault?

    /// The sign-in that the request is about and its effect on it, if Apple knows the code or token.
    enum Subject: Sendable {
        case exchange(Int)
        case refresh(Int)
        case revocation(Int)
        /// A client and its secret, and no sign-in.
        case client
    }
}

extension Arrival.Subject? {
    var isClient: Bool {
        if case .client = self { true } else { false }
    }
}

/// How an exchange ended.
struct ExchangeOutcome: Sendable {
    /// The status of the answer, or the reason why there is none: a key of ``Counters/requests``.
    let label: String
    /// Whether the answer says that a token is good or dead.
    var isVerdict = false
}

extension AppleWorld {
    /// - Parameter caller: the name of the caller, if several share the simulator.
    mutating func begin(_ endpoint: Endpoint, _ form: FormBody?, of caller: String, hasUserAgent: Bool) -> Arrival {
        let token = form?["refresh_token"] ?? form?["code"] ?? form?["token"]
        let grant = token.flatMap { self.grant(of: $0, .code, .refresh, .access) }
        let target = FaultTarget(
            endpoint: endpoint,
            grantType: form?["grant_type"],
            clientID: form?["client_id"],
            userID: grant.map { users[grants[$0].user].id }
        )
        let fault = faults.next(for: target)
        counters.begin()
        let subject = subject(of: endpoint, form)
        // siwatch proves each client once, at a time of its own. The order and the pace of its work do not show it.
        if endpoint != .keys, !subject.isClient {
            counters.traffic.record(isCode: form?["grant_type"] == "authorization_code", of: caller, at: now)
        }
        if fault != nil { counters.faults += 1 }
        if !hasUserAgent { counters.anonymousRequests += 1 }
        return Arrival(endpoint: endpoint, subject: subject, fault: fault)
    }

    private func subject(of endpoint: Endpoint, _ form: FormBody?) -> Arrival.Subject? {
        switch (endpoint, form?["grant_type"]) {
        case (.token, "authorization_code"): form?["code"].flatMap { grant(of: $0, .code) }.map { .exchange($0) }
        case (.token, "refresh_token"): form?["refresh_token"].flatMap { grant(of: $0, .refresh) }.map { .refresh($0) }
        case (.token, TokenRequest.clientCredentials): .client
        case (.revoke, _): form?["token"].flatMap { grant(of: $0, .refresh, .access) }.map { .revocation($0) }
        case (.token, _), (.keys, _): nil
        }
    }

    mutating func end(_ arrival: Arrival, _ outcome: ExchangeOutcome, now: Moment) {
        counters.end(arrival, outcome)
        switch arrival.subject {
        case .exchange(let grant): grants[grant].exchanges += 1
        case .refresh(let grant): grants[grant].refreshes.record(isAnswer: outcome.isVerdict, at: now)
        case .revocation(let grant): grants[grant].revocations += 1
        case .client, nil: break
        }
    }
}
