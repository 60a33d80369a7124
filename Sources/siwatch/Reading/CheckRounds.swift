// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// How long one check of every token takes for each app.
///
/// Every authorized credential may have a token. Only if so many checks do not fit is the schedule counted. The count takes a second for
/// ten million rows, and holds for an hour.
actor CheckRounds {
    private let store: any CredentialReader
    private var counted: [String: (tokens: Int, at: ContinuousClock.Instant)] = [:]

    private static let validity = Duration.hours(1)

    init(_ store: any CredentialReader) {
        self.store = store
    }

    func rounds(_ configuration: Configuration, _ counts: [CredentialCount]) async throws -> [AppRound] {
        let refresh = configuration.refresh
        var rounds: [AppRound] = []
        for app in configuration.apps.map(\.name) {
            let authorized = counts.first { $0.app == app && $0.state == CredentialState.authorized.rawValue }?.count ?? 0
            var round = CheckRound(tokens: authorized, requestsPerSecond: Double(refresh.maxRequestsPerSecond), interval: refresh.interval)
            if !round.fits { round.tokens = min(try await tokens(of: app), authorized) }
            rounds.append(AppRound(app: app, round: round))
        }
        return rounds
    }

    private func tokens(of app: String) async throws -> Int {
        if let known = counted[app], ContinuousClock.now - known.at < Self.validity { return known.tokens }
        let tokens = try await store.scheduledCredentials(of: app)
        counted[app] = (tokens, .now)
        return tokens
    }
}

struct AppRound: Encodable, CustomStringConvertible {
    var app: String
    var round: CheckRound

    /// Durations in milliseconds.
    func encode(to encoder: any Encoder) throws {
        try encoder.encode([
            "app": app, "tokens": round.tokens, "maxRequestsPerSecond": round.requestsPerSecond,
            "duration": round.duration.milliseconds, "interval": round.interval.milliseconds,
            "sufficientRequestsPerSecond": round.sufficientRate,
        ])
    }

    /// The sentence for a round that does not fit.
    var description: String {
        """
        \(app.printable): a check of all \(round.tokens) tokens takes \(round.duration.text) at \(Int(round.requestsPerSecond)) a second, and \
        each is to be checked every \(round.interval.text); max_requests_per_second = \(round.sufficientRate) would do
        """
    }
}
