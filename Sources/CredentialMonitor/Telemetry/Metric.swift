// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Every metric by its name, kind, labels and help. The names are part of the program's public interface.
package struct Metric: Sendable {
    package enum Kind: Sendable {
        case counter, gauge
        case histogram(buckets: [Double])
    }

    package var name: String
    package var kind: Kind
    package var labels: [String]
    package var help: String

    private init(_ name: String, _ kind: Kind, by labels: [String] = [], _ help: String) {
        self.name = "siwatch_\(name)"
        self.kind = kind
        self.labels = labels
        self.help = help
    }
}

extension Metric {
    private static let seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
    private static let lags = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400]
    private static let sizes = [1.0, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000]

    static let buildInfo = Metric("build_info", .gauge, by: ["version", "database"], "Always 1; the labels say what runs.")
    static let ready = Metric("ready", .gauge, "1 while the daemon is ready, as /readyz says it.")
    static let notifications = Metric(
        "notifications_total",
        .counter,
        by: ["type", "outcome"],
        "Verified notifications settled, by type and outcome."
    )
    static let notificationsRejected = Metric(
        "notifications_rejected_total",
        .counter,
        by: ["reason"],
        "Notifications put into quarantine, by reason."
    )
    static let notificationLag = Metric(
        "notification_lag_seconds",
        .histogram(buckets: lags),
        "Time from an event at Apple to its settlement here."
    )
    static let notificationsEvicted = Metric(
        "notifications_evicted_total",
        .counter,
        "Unsigned rubbish that left the quarantine's ring to make room."
    )
    static let notificationLastReceived = Metric(
        "notification_last_received_timestamp_seconds",
        .gauge,
        "When the newest settled notification had been received."
    )
    static let notificationsMissed = Metric(
        "notifications_missed_total",
        .counter,
        by: ["app"],
        "Revocations found by asking Apple without a notification of them."
    )
    static let queueDepth = Metric("queue_depth", .gauge, by: ["queue"], "Rows that wait in a queue.")
    static let queueOldest = Metric(
        "queue_oldest_timestamp_seconds",
        .gauge,
        by: ["queue"],
        "When the first waiting notification arrived, sign-in was granted, revocation was requested; 0 where the queue is empty."
    )
    static let queueDue = Metric(
        "queue_due",
        .gauge,
        by: ["queue"],
        "Notifications and sign-ins that could be taken now; counted up to 1000."
    )
    static let grants = Metric("grants_total", .counter, by: ["outcome"], "Sign-ins settled, by outcome.")
    static let codeExchanges = Metric(
        "code_exchanges_total",
        .counter,
        by: ["app", "outcome"],
        "Authorization codes settled, by what came of them."
    )
    static let codeExchangeDuration = Metric(
        "code_exchange_duration_seconds",
        .histogram(buckets: seconds),
        "Time that one exchange of a code took at Apple."
    )
    static let revocations = Metric(
        "revocations_total",
        .counter,
        by: ["app", "outcome"],
        "Tokens that were to be revoked, and requests that came to none, by what came of them."
    )
    static let refreshes = Metric("refreshes_total", .counter, by: ["app", "outcome"], "Checks of a refresh token, by outcome.")
    static let firstChecks = Metric(
        "first_checks_total",
        .counter,
        by: ["app", "outcome"],
        "Checks of tokens that Apple had not accepted before: accepted, or rejected."
    )
    static let refreshDuration = Metric(
        "refresh_duration_seconds",
        .histogram(buckets: seconds),
        "Time that one check of a refresh token took at Apple."
    )
    static let refreshesInFlight = Metric("refreshes_in_flight", .gauge, "Checks that wait for Apple's answer.")
    static let refreshRound = Metric(
        "refresh_round_ratio",
        .gauge,
        by: ["app"],
        "Time that a check of all tokens takes at max_requests_per_second, in intervals; above 1 they do not fit."
    )
    static let credentials = Metric("credentials", .gauge, by: ["app", "state"], "Credentials by state.")
    static let credentialsOverdue = Metric(
        "credentials_overdue",
        .gauge,
        by: ["app"],
        "Credentials whose check is late; counted up to 100,000."
    )
    static let credentialsUnverified = Metric(
        "credentials_unverified",
        .gauge,
        by: ["app"],
        "Credentials with a token that Apple has not confirmed for three intervals."
    )
    static let credentialsNeverAccepted = Metric(
        "credentials_never_accepted",
        .gauge,
        by: ["app"],
        "Credentials whose token Apple rejects and has never accepted."
    )
    static let credentialsPending = Metric("credentials_pending", .gauge, by: ["app"], "Rejections that wait to be believed.")
    static let stateTransitions = Metric(
        "state_transitions_total",
        .counter,
        by: ["app", "from", "to", "reason"],
        "Changes of a credential's state."
    )
    static let appleResponses = Metric(
        "apple_responses_total",
        .counter,
        by: ["endpoint", "status"],
        "Answers of Apple's endpoints by HTTP status, or what went wrong."
    )
    static let signingKeys = Metric("signing_keys", .gauge, "Apple's signing keys that are known, retired ones included.")
    static let signingKeysLastRefresh = Metric(
        "signing_keys_last_refresh_timestamp_seconds",
        .gauge,
        "When Apple's signing keys were last fetched."
    )
    static let settlements = Metric("settlements_total", .counter, "Pieces of work whose outcome was committed.")
    static let settlementBatchSize = Metric("settlement_batch_size", .histogram(buckets: sizes), "Pieces of work per commit.")
    static let storeTransactionDuration = Metric(
        "store_transaction_duration_seconds",
        .histogram(buckets: seconds),
        "Time that one settling transaction took."
    )
    static let storeErrors = Metric("store_errors_total", .counter, "Transactions that the database refused or failed.")
    static let storeFull = Metric("store_full", .gauge, "1 while the disk has no space for a commit.")
    static let foreignCheckpoints = Metric(
        "foreign_checkpoints_total",
        .counter,
        "Checkpoints of the database's log that another program made."
    )
    static let appPaused = Metric(
        "app_paused",
        .gauge,
        by: ["app"],
        "1 while checks of an app are paused, because Apple blames one of its clients or an operator wants it."
    )
    static let breakerOpen = Metric("breaker_open", .gauge, by: ["app"], "1 while no rejection of this app is believed.")
    static let configLastReloadSuccessful = Metric(
        "config_last_reload_successful",
        .gauge,
        "1 if the last reload of the configuration was taken over."
    )
    static let configLastReloadSuccess = Metric(
        "config_last_reload_success_timestamp_seconds",
        .gauge,
        "When a reload of the configuration was last taken over."
    )
    static let appleClockSkew = Metric(
        "apple_clock_skew_seconds",
        .gauge,
        "Apple's clock less ours, from its answers; on PostgreSQL ours is the server's."
    )
    static let clockHeld = Metric(
        "clock_held",
        .gauge,
        "1 while nothing is forgotten or given up by age, because the wall clock cannot be trusted."
    )
    static let logPinnedSince = Metric(
        "log_pinned_since_timestamp_seconds",
        .gauge,
        "Since when a reader keeps the database from clearing away what was erased; 0 where none does."
    )
    static let laneOwned = Metric(
        "lane_owned",
        .gauge,
        by: ["lane"],
        "1 while this siwatch asks Apple for an app, or keeps house, and no other does."
    )
    static let seals = Metric("seals_total", .counter, "Tokens sealed.")
    static let logLinesSuppressed = Metric(
        "log_lines_suppressed_total",
        .counter,
        by: ["event"],
        "Log lines held back in a flood of one event."
    )

    static let logLinesDropped = Metric(
        "log_lines_dropped_total",
        .counter,
        "Log lines dropped because nobody read those before them."
    )

    package static let all = [
        buildInfo, ready, notifications, notificationsRejected, notificationLag, notificationsEvicted, notificationLastReceived,
        notificationsMissed, queueDepth, queueOldest, queueDue, grants, codeExchanges, codeExchangeDuration, revocations, refreshes,
        firstChecks, refreshDuration, refreshesInFlight, refreshRound, credentials,
        credentialsOverdue, credentialsUnverified, credentialsNeverAccepted, credentialsPending, stateTransitions, appleResponses,
        signingKeys, signingKeysLastRefresh, settlements, settlementBatchSize, storeTransactionDuration, storeErrors, storeFull,
        foreignCheckpoints,
        appPaused, breakerOpen, configLastReloadSuccessful, configLastReloadSuccess, appleClockSkew, clockHeld, logPinnedSince, laneOwned,
        seals,
        logLinesSuppressed, logLinesDropped,
    ]

    /// Read from the tables. If several replicas share them, only one tells these metrics.
    static let ofTables = [
        queueDepth, queueOldest, queueDue, refreshRound, credentials, credentialsOverdue, credentialsUnverified, credentialsNeverAccepted,
        credentialsPending, logPinnedSince,
    ]
}
