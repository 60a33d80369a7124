// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Every metric. Names, kinds, labels and helps are part of the program's public interface.
package enum Metric: String, Sendable, CaseIterable {
    case buildInfo = "build_info"
    case ready
    case findings
    case notifications = "notifications_total"
    case notificationsRejected = "notifications_rejected_total"
    case notificationLag = "notification_lag_seconds"
    case notificationsEvicted = "notifications_evicted_total"
    case notificationLastReceived = "notification_last_received_timestamp_seconds"
    case notificationsMissed = "notifications_missed_total"
    case queueDepth = "queue_depth"
    case queueOldest = "queue_oldest_timestamp_seconds"
    case queueDue = "queue_due"
    case grants = "grants_total"
    case codeExchanges = "code_exchanges_total"
    case codeExchangeDuration = "code_exchange_duration_seconds"
    case revocations = "revocations_total"
    case revocationsHeld = "revocations_held"
    case refreshes = "refreshes_total"
    case firstChecks = "first_checks_total"
    case refreshDuration = "refresh_duration_seconds"
    case refreshesInFlight = "refreshes_in_flight"
    case refreshRound = "refresh_round_ratio"
    case credentials
    case credentialsOverdue = "credentials_overdue"
    case credentialsUnverified = "credentials_unverified"
    case credentialsNeverAccepted = "credentials_never_accepted"
    case credentialsPending = "credentials_pending"
    case stateTransitions = "state_transitions_total"
    case appleResponses = "apple_responses_total"
    case signingKeys = "signing_keys"
    case signingKeysLastRefresh = "signing_keys_last_refresh_timestamp_seconds"
    case signingKeyChanges = "signing_key_changes_total"
    case settlements = "settlements_total"
    case settlementBatchSize = "settlement_batch_size"
    case storeTransactionDuration = "store_transaction_duration_seconds"
    case storeErrors = "store_errors_total"
    case storeFull = "store_full"
    case storeWritable = "store_writable"
    case tablesRead = "tables_read_timestamp_seconds"
    case foreignCheckpoints = "foreign_checkpoints_total"
    case appPaused = "app_paused"
    case breakerOpen = "breaker_open"
    case breakerMuted = "breaker_muted"
    case configLastReloadSuccessful = "config_last_reload_successful"
    case configLastReloadSuccess = "config_last_reload_success_timestamp_seconds"
    case appleClockSkew = "apple_clock_skew_seconds"
    case clockHeld = "clock_held"
    case logPinnedSince = "log_pinned_since_timestamp_seconds"
    case backupLastSuccess = "backup_last_success_timestamp_seconds"
    case laneOwned = "lane_owned"
    case seals = "seals_total"
    case httpRequests = "http_requests_total"
    case httpRefusals = "http_refusals"
    case deliveries = "deliveries_total"
    case deliveryBehind = "delivery_behind"
    case deliveryWaiting = "delivery_waiting"
    case deliveryOldest = "delivery_oldest_timestamp_seconds"
    case deliveryDead = "delivery_dead"
    case logLinesSuppressed = "log_lines_suppressed_total"
    case logLinesDropped = "log_lines_dropped_total"

    package enum Kind: Sendable {
        case counter, gauge
        /// - Parameter buckets: the upper bound of each.
        case histogram(buckets: [Double])
    }

    package var name: String { "siwatch_\(rawValue)" }
    package var kind: Kind { definition.kind }
    package var labels: [String] { definition.labels }
    package var help: String { definition.help }

    /// Read from the tables. If several replicas share them, only one tells these metrics.
    static let ofTables = allCases.filter(\.definition.isOfTables)
}

extension Metric {
    private struct Definition {
        var kind: Kind
        var labels: [String]
        var help: String
        var isOfTables: Bool

        init(_ kind: Kind, by labels: [String] = [], isOfTables: Bool = false, _ help: String) {
            self.kind = kind
            self.labels = labels
            self.help = help
            self.isOfTables = isOfTables
        }
    }

    private static let seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
    private static let lags = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400]
    private static let sizes = [1.0, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000]

    private var definition: Definition {
        switch self {
        case .buildInfo: Definition(.gauge, by: ["version", "database"], "Always 1; the labels say what runs.")
        case .ready: Definition(.gauge, "1 while the daemon is ready, as /readyz says it.")
        case .findings: Definition(.gauge, by: ["severity"], "What siwatch status finds, by severity: note, degraded or down.")
        case .notifications: Definition(.counter, by: ["type", "outcome"], "Verified notifications settled, by type and outcome.")
        case .notificationsRejected: Definition(.counter, by: ["reason"], "Notifications put into quarantine, by reason.")
        case .notificationLag: Definition(.histogram(buckets: Self.lags), "Time from an event at Apple to its settlement here.")
        case .notificationsEvicted: Definition(.counter, "Unsigned rubbish that left the quarantine's rings to make room.")
        case .notificationLastReceived: Definition(.gauge, "When the newest settled notification had been received.")
        case .notificationsMissed: Definition(.counter, by: ["app"], "Revocations found by asking Apple without a notification of them.")
        case .queueDepth: Definition(.gauge, by: ["queue"], isOfTables: true, "Rows that wait in a queue.")
        case .queueOldest:
            Definition(
                .gauge,
                by: ["queue"],
                isOfTables: true,
                "When the first waiting notification arrived, sign-in was granted, revocation was requested; 0 where the queue is empty."
            )
        case .queueDue:
            Definition(.gauge, by: ["queue"], isOfTables: true, "Notifications and sign-ins that could be taken now; counted up to 1000.")
        case .grants: Definition(.counter, by: ["outcome"], "Sign-ins settled, by outcome.")
        case .codeExchanges: Definition(.counter, by: ["app", "outcome"], "Authorization codes settled, by what came of them.")
        case .codeExchangeDuration: Definition(.histogram(buckets: Self.seconds), "Time that one exchange of a code took at Apple.")
        case .revocations:
            Definition(
                .counter,
                by: ["app", "outcome"],
                "Tokens that were to be revoked, and requests that came to none, by what came of them."
            )
        case .revocationsHeld:
            Definition(.gauge, by: ["app"], isOfTables: true, "Requests to revoke that the brake holds until an operator decides.")
        case .refreshes: Definition(.counter, by: ["app", "outcome"], "Checks of a refresh token, by outcome.")
        case .firstChecks:
            Definition(.counter, by: ["app", "outcome"], "Checks of tokens that Apple had not accepted before: accepted, or rejected.")
        case .refreshDuration: Definition(.histogram(buckets: Self.seconds), "Time that one check of a refresh token took at Apple.")
        case .refreshesInFlight: Definition(.gauge, "Checks that wait for Apple's answer.")
        case .refreshRound:
            Definition(
                .gauge,
                by: ["app"],
                isOfTables: true,
                "Time that a check of all tokens takes at max_requests_per_second, in intervals; above 1 they do not fit."
            )
        case .credentials: Definition(.gauge, by: ["app", "state"], isOfTables: true, "Credentials by state.")
        case .credentialsOverdue:
            Definition(.gauge, by: ["app"], isOfTables: true, "Credentials whose check is late; counted up to 100,000.")
        case .credentialsUnverified:
            Definition(.gauge, by: ["app"], isOfTables: true, "Credentials with a token that Apple has not confirmed for three intervals.")
        case .credentialsNeverAccepted:
            Definition(.gauge, by: ["app"], isOfTables: true, "Credentials whose token Apple rejects and has never accepted.")
        case .credentialsPending: Definition(.gauge, by: ["app"], isOfTables: true, "Rejections that wait to be believed.")
        case .stateTransitions: Definition(.counter, by: ["app", "from", "to", "reason"], "Changes of a credential's state.")
        case .appleResponses:
            Definition(.counter, by: ["endpoint", "status"], "Answers of Apple's endpoints by HTTP status, or what went wrong.")
        case .signingKeys: Definition(.gauge, "Apple's signing keys that are known, retired ones included.")
        case .signingKeysLastRefresh: Definition(.gauge, "When Apple's signing keys were last fetched.")
        case .signingKeyChanges:
            Definition(.counter, by: ["change"], "Signing keys that were new, retired or forgotten, or in the database and not siwatch's.")
        case .settlements: Definition(.counter, "Pieces of work whose outcome was committed.")
        case .settlementBatchSize: Definition(.histogram(buckets: Self.sizes), "Pieces of work per commit.")
        case .storeTransactionDuration: Definition(.histogram(buckets: Self.seconds), "Time that one settling transaction took.")
        case .storeErrors: Definition(.counter, "Transactions that the database refused or failed.")
        case .storeFull: Definition(.gauge, "1 while the disk has no space for a commit.")
        case .storeWritable: Definition(.gauge, "1 while backends can insert.")
        case .tablesRead: Definition(.gauge, isOfTables: true, "When the figures of the tables were last read.")
        case .foreignCheckpoints: Definition(.counter, "Checkpoints of the database's log that another program made.")
        case .appPaused:
            Definition(
                .gauge,
                by: ["app"],
                "1 while checks of an app are paused, because Apple blames one of its clients or an operator wants it."
            )
        case .breakerOpen: Definition(.gauge, by: ["app"], "1 while no rejection of this app is believed.")
        case .breakerMuted:
            Definition(.gauge, by: ["app"], isOfTables: true, "1 while an operator's confirmation that many rejections are real holds.")
        case .configLastReloadSuccessful: Definition(.gauge, "1 if the last reload of the configuration was taken over.")
        case .configLastReloadSuccess: Definition(.gauge, "When a reload of the configuration was last taken over.")
        case .appleClockSkew: Definition(.gauge, "Apple's clock less ours, from its answers; on PostgreSQL ours is the server's.")
        case .clockHeld: Definition(.gauge, "1 while nothing is forgotten or given up by age, because the wall clock cannot be trusted.")
        case .logPinnedSince:
            Definition(
                .gauge,
                isOfTables: true,
                "Since when a transaction keeps the database from clearing away what was erased; 0 where none does."
            )
        case .backupLastSuccess:
            Definition(.gauge, isOfTables: true, "When siwatch backup last wrote a copy, or noted another program's; 0 if never.")
        case .laneOwned:
            Definition(
                .gauge,
                by: ["lane"],
                "1 while this siwatch asks Apple for an app, sends a delivery's webhooks, or keeps house, and no other does."
            )
        case .seals: Definition(.counter, "Tokens sealed.")
        case .deliveries: Definition(.counter, by: ["delivery", "outcome"], "Webhooks sent, by what became of them.")
        case .deliveryBehind: Definition(.gauge, by: ["delivery"], "Changes that a receiver has not been sent yet.")
        case .deliveryOldest:
            Definition(
                .gauge,
                by: ["delivery"],
                "When the oldest change was recorded that waits for its next try; 0 if none does."
            )
        case .deliveryWaiting:
            Definition(.gauge, by: ["delivery"], "Changes that a receiver did not take and is sent again.")
        case .deliveryDead:
            Definition(.gauge, by: ["delivery"], "Changes that a receiver did not take and is sent no more.")
        case .httpRequests:
            Definition(
                .counter,
                by: ["client", "operation", "status"],
                "Requests of backends and of Apple, by who asked, for what, and the answer."
            )
        case .httpRefusals:
            Definition(
                .gauge,
                by: ["client"],
                "1 while the HTTP door refuses more than one request of a client in ten, 2 if it has served none at all since its start."
            )
        case .logLinesSuppressed: Definition(.counter, by: ["event"], "Log lines held back in a flood of one event.")
        case .logLinesDropped:
            Definition(.counter, "Log lines dropped because nobody read those before them, or because the system refused them.")
        }
    }
}
