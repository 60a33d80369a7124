// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Every metric: its name, its kind, its labels and its help, which are part of the program's public interface. A gauge *of tables* is read
/// from the tables. If several replicas share them, only one tells it.
package enum Metric: String, Sendable, CaseIterable {
    case buildInfo = "build_info gauge by version, database: Always 1; the labels say what runs."
    case ready = "ready gauge: 1 while the daemon is ready, as /readyz says it."
    case findings = "findings gauge by severity: What siwatch status finds, by severity: note, degraded or down."
    case notifications = "notifications_total counter by type, outcome: Verified notifications settled, by type and outcome."
    case notificationsRejected = "notifications_rejected_total counter by reason: Notifications put into quarantine, by reason."
    case notificationLag = "notification_lag_seconds histogram of lags: Time from an event at Apple to its settlement here."
    case notificationsEvicted = "notifications_evicted_total counter: Unsigned rubbish that left the quarantine's rings to make room."
    case notificationLastReceived =
        "notification_last_received_timestamp_seconds gauge: When the newest settled notification had been received."
    case notificationsMissed =
        "notifications_missed_total counter by app: Revocations found by asking Apple without a notification of them."
    case queueDepth = "queue_depth gauge of tables by queue: Rows that wait in a queue."
    case queueOldest =
        "queue_oldest_timestamp_seconds gauge of tables by queue: When the first waiting notification arrived, sign-in was granted, revocation was requested; 0 where the queue is empty."
    case queueDue = "queue_due gauge of tables by queue: Notifications and sign-ins that could be taken now; counted up to 1000."
    case grants = "grants_total counter by outcome: Sign-ins settled, by outcome."
    case codeExchanges = "code_exchanges_total counter by app, outcome: Authorization codes settled, by what came of them."
    case codeExchangeDuration = "code_exchange_duration_seconds histogram of seconds: Time that one exchange of a code took at Apple."
    case revocations =
        "revocations_total counter by app, outcome: Tokens that were to be revoked, and requests that came to none, by what came of them."
    case revocationsHeld =
        "revocations_held gauge of tables by app: Requests to revoke that the revocation limit holds until an operator decides."
    case refreshes = "refreshes_total counter by app, outcome: Checks of a refresh token, by outcome."
    case firstChecks =
        "first_checks_total counter by app, outcome: Checks of tokens that Apple had not accepted before: accepted, or rejected."
    case refreshDuration = "refresh_duration_seconds histogram of seconds: Time that one check of a refresh token took at Apple."
    case refreshesInFlight = "refreshes_in_flight gauge: Checks that wait for Apple's answer."
    case refreshRound =
        "refresh_round_ratio gauge of tables by app: Time that a check of all tokens takes at max_requests_per_second, in intervals; above 1 they do not fit."
    case credentials = "credentials gauge of tables by app, state: Credentials by state."
    case credentialsOverdue = "credentials_overdue gauge of tables by app: Credentials whose check is late; counted up to 100,000."
    case credentialsUnverified =
        "credentials_unverified gauge of tables by app: Credentials with a token that Apple has not confirmed for three intervals."
    case credentialsNeverAccepted =
        "credentials_never_accepted gauge of tables by app: Credentials whose token Apple rejects and has never accepted."
    case credentialsPending = "credentials_pending gauge of tables by app: Rejections that wait to be believed."
    case stateTransitions = "state_transitions_total counter by app, from, to, reason: Changes of a credential's state."
    case appleResponses =
        "apple_responses_total counter by endpoint, status: Answers of Apple's endpoints by HTTP status, or what went wrong."
    case signingKeys = "signing_keys gauge: Apple's signing keys that are known, retired ones included."
    case signingKeysLastRefresh = "signing_keys_last_refresh_timestamp_seconds gauge: When Apple's signing keys were last fetched."
    case signingKeyChanges =
        "signing_key_changes_total counter by change: Signing keys that were new, retired or forgotten, or in the database and not siwatch's."
    case plantedDecisions =
        "planted_decisions_total counter by kind: Decisions in the database that siwatch had not written, and did not carry out."
    case settlements = "settlements_total counter: Pieces of work whose outcome was committed."
    case settlementBatchSize = "settlement_batch_size histogram of sizes: Pieces of work per commit."
    case storeTransactionDuration = "store_transaction_duration_seconds histogram of seconds: Time that one settling transaction took."
    case storeErrors = "store_errors_total counter: Transactions that the database refused or failed."
    case storeFull = "store_full gauge: 1 while the disk has no space for a commit."
    case storeWritable = "store_writable gauge: 1 while backends can insert."
    case tablesRead = "tables_read_timestamp_seconds gauge of tables: When the figures of the tables were last read."
    case foreignCheckpoints = "foreign_checkpoints_total counter: Checkpoints of the database's log that another program made."
    case appPaused =
        "app_paused gauge by app: 1 while checks of an app are paused, because Apple blames one of its clients or an operator wants it."
    case breakerOpen = "breaker_open gauge by app: 1 while no rejection of this app is believed."
    case breakerMuted = "breaker_muted gauge of tables by app: 1 while an operator's confirmation that many rejections are real holds."
    case configLastReloadSuccessful = "config_last_reload_successful gauge: 1 if the last reload of the configuration was taken over."
    case configLastReloadSuccess =
        "config_last_reload_success_timestamp_seconds gauge: When a reload of the configuration was last taken over."
    case appleClockSkew = "apple_clock_skew_seconds gauge: Apple's clock less ours, from its answers; on PostgreSQL ours is the server's."
    case clockHeld = "clock_held gauge: 1 while nothing is forgotten or given up by age, because the wall clock cannot be trusted."
    case logPinnedSince =
        "log_pinned_since_timestamp_seconds gauge of tables: Since when a transaction keeps the database from clearing away what was erased; 0 where none does."
    case backupLastSuccess =
        "backup_last_success_timestamp_seconds gauge of tables: When siwatch backup last wrote a copy, or noted another program's; 0 if never."
    case laneOwned =
        "lane_owned gauge by lane: 1 while this siwatch asks Apple for an app, sends a delivery's webhooks, or keeps house, and no other does."
    case seals = "seals_total counter: Tokens sealed."
    case sealedBlobs = "sealed_blobs gauge of tables by key: Sealed values in the tables, by the id of their key, as last counted."
    case httpRequests =
        "http_requests_total counter by client, operation, status: Requests of backends and of Apple, by who asked, for what, and the answer."
    case httpRefusals =
        "http_refusals gauge by client: 1 while the HTTP door refuses more than one request of a client in ten, 2 if it has served none at all since its start."
    case deliveries = "deliveries_total counter by delivery, outcome: Webhooks sent, by what became of them."
    case deliveryBehind = "delivery_behind gauge by delivery: Changes that a receiver has not been sent yet."
    case deliveryWaiting = "delivery_waiting gauge by delivery: Changes that a receiver did not take and is sent again."
    case deliveryOldest =
        "delivery_oldest_timestamp_seconds gauge by delivery: When the oldest change was recorded that waits for its next try; 0 if none does."
    case deliveryDead = "delivery_dead gauge by delivery: Changes that a receiver did not take and is sent no more."
    case logLinesSuppressed = "log_lines_suppressed_total counter by event: Log lines held back in a flood of one event."
    case logLinesDropped =
        "log_lines_dropped_total counter: Log lines dropped because nobody read those before them, or because the system refused them."

    package enum Kind: Sendable {
        case counter, gauge
        case histogram(buckets: [Double])
    }

    package var name: String { "siwatch_\(definition.name)" }
    package var kind: Kind { definition.kind }
    package var labels: [String] { definition.labels }
    package var help: String { definition.help }

    static let ofTables = allCases.filter(\.definition.isOfTables)

    private struct Definition {
        var name, help: String
        var kind: Kind
        var labels: [String]
        var isOfTables: Bool

        init(_ text: String) {
            let parts = text.split(separator: ": ", maxSplits: 1)
            let (head, labels) = (parts[0].split(separator: " by "), parts[0].split(separator: " by ").dropFirst().first)
            let words = head[0].split(separator: " ").map(String.init)
            (name, help, isOfTables) = (words[0], String(parts[1]), words.last == "tables")
            self.labels = labels?.split(separator: ", ").map(String.init) ?? []
            kind = Kind(words[1], of: words[words.count - 1])
        }
    }

    private var definition: Definition { Self.definitions[self]! }

    private static let definitions: [Metric: Definition] = allCases.reduce(into: [:]) { $0[$1] = Definition($1.rawValue) }
}

extension Metric.Kind {
    fileprivate init(_ kind: String, of values: String) {
        self =
            switch (kind, values) {
            case ("counter", _): .counter
            case ("gauge", _): .gauge
            case (_, "lags"): .histogram(buckets: [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400])
            case (_, "sizes"): .histogram(buckets: [1.0, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000])
            default: .histogram(buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30])
            }
    }
}
