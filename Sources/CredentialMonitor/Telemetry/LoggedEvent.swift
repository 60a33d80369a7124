// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Logging

/// Every kind of log line by its stable name, its level and its constant message. Everything variable is metadata.
///
/// The names are part of the program's public interface. docs/telemetry.md lists each level in this order.
package enum LoggedEvent: String, Sendable, CaseIterable {
    // MARK: The process

    case starting
    case listening
    case doorOpen = "door_open"
    case doorFailed = "door_failed"
    case doorRecovered = "door_recovered"
    case requestsRefused = "requests_refused"
    case requestsTaken = "requests_taken"
    case deliveryFailed = "delivery_failed"
    case deliveryRecovered = "delivery_recovered"
    case deliveryStopped = "delivery_stopped"
    case deliveryDead = "delivery_dead"
    case deliverySkipped = "delivery_skipped"
    case deliveryUnconfigured = "delivery_unconfigured"
    case ready
    case stopping
    case stopped
    case stopCutShort = "stop_cut_short"
    case systemdNotTold = "systemd_not_told"
    case configurationDoubtful = "configuration_doubtful"
    case reloaded
    case reloadNeedsRestart = "reload_needs_restart"
    case reloadFailed = "reload_failed"
    case socketUnavailable = "socket_unavailable"
    case logLinesDropped = "log_lines_dropped"

    // MARK: Work and the database

    case claimFailed = "claim_failed"
    case commitFailed = "commit_failed"
    case storeRecovered = "store_recovered"
    case settlementFailed = "settlement_failed"
    case settlementRefused = "settlement_refused"
    case sealingFailed = "sealing_failed"
    case unknownClients = "unknown_clients"
    case tokenUndelivered = "token_undelivered"
    case grantsFromFuture = "grants_from_future"
    case maintenanceFailed = "maintenance_failed"
    case foreignCheckpoint = "foreign_checkpoint"
    case logPinned = "log_pinned"
    case logEmptied = "log_emptied"
    case databaseDisplaced = "database_displaced"
    case sharedMemoryCut = "shared_memory_cut"
    case databaseInPlace = "database_in_place"
    case insertsBlocked = "inserts_blocked"
    case insertsPossible = "inserts_possible"
    case schemaForeign = "schema_foreign"
    case laneTaken = "lane_taken"
    case laneLost = "lane_lost"
    case renewalFailed = "renewal_failed"
    case operatorRequestAnswered = "operator_request_answered"
    /// At debug level for a sign-in, because the news is who is no longer signed in.
    case credentialChanged = "credential_changed"

    // MARK: Apple

    case answerAmbiguous = "answer_ambiguous"
    case answerUnavailable = "answer_unavailable"
    case appleUnreachable = "apple_unreachable"
    case appleReachable = "apple_reachable"
    case throttled
    case codeRejected = "code_rejected"
    case signInsRejected = "sign_ins_rejected"
    case signInsTaken = "sign_ins_taken"
    case codeTokenKept = "code_token_kept"
    case revocationUnproved = "revocation_unproved"
    case revocationRejected = "revocation_rejected"
    case revocationsBraked = "revocations_braked"
    case tokenUnreadable = "token_unreadable"
    case clientAccepted = "client_accepted"
    case clientRefused = "client_refused"
    case appPaused = "app_paused"
    case appResumed = "app_resumed"
    case checksDoNotFit = "checks_do_not_fit"
    case checksFit = "checks_fit"
    case breakerOpened = "breaker_opened"
    case breakerClosed = "breaker_closed"
    case canaryUnknown = "canary_unknown"
    case teamChanged = "team_changed"
    case signingKeysFailed = "signing_keys_failed"
    case signingKeysNotKept = "signing_keys_not_kept"
    case signingKeyNew = "signing_key_new"
    case signingKeyRetired = "signing_key_retired"
    case signingKeyForgotten = "signing_key_forgotten"
    case signingKeysDisbelieved = "signing_keys_disbelieved"
    case clockSkewed = "clock_skewed"
    case clockRight = "clock_right"
    case clockDoubted = "clock_doubted"
    case clockTrusted = "clock_trusted"

    package var name: String { rawValue }
    package var level: Logger.Level { definition.level }
    package var message: String { definition.message }

    private var definition: (level: Logger.Level, message: String) {
        switch self {
        case .starting: (.notice, "siwatch starts")
        case .listening: (.info, "Metrics and health are served")
        case .doorOpen: (.info, "Backends are served over HTTP")
        case .doorFailed: (.error, "Backends ask over HTTP, and the database does not answer")
        case .doorRecovered: (.notice, "The database answers backends over HTTP again")
        case .requestsRefused: (.warning, "The HTTP door refuses what a client asks, which may tell nobody")
        case .requestsTaken: (.notice, "The HTTP door hardly refuses a client any more, or the client asks no more")
        case .deliveryFailed: (.warning, "A receiver of webhooks does not take them; nothing is lost, and siwatch tries again")
        case .deliveryRecovered: (.notice, "A receiver of webhooks takes them again")
        case .deliveryStopped: (.error, "A receiver of webhooks said that it is gone, and nothing more is sent to it")
        case .deliveryDead: (.error, "A receiver did not take a webhook at the last try, and is not sent it again")
        case .deliverySkipped: (.error, "Changes were never delivered: they are past their retention, or the database was restored")
        case .deliveryUnconfigured: (.warning, "A delivery that sent webhooks is not in the configuration, and sends none")
        case .ready: (.notice, "siwatch is ready")
        case .stopping: (.notice, "siwatch stops; what is in flight is settled first")
        case .stopped: (.notice, "siwatch has stopped")
        case .stopCutShort: (.warning, "The stop took too long; siwatch takes unfinished rows again when their leases end")
        case .systemdNotTold: (.warning, "systemd was not told")
        case .configurationDoubtful: (.warning, "The configuration is legal and hardly meant")
        case .reloaded: (.notice, "The configuration was read again and taken over")
        case .reloadNeedsRestart: (.warning, "What else has changed in the configuration counts from the next start")
        case .reloadFailed: (.error, "The new configuration is unusable; the old one stays")
        case .socketUnavailable: (.warning, "siwatch status cannot ask over the socket, and reads the tables")
        case .logLinesDropped: (.warning, "Log lines could not be written for a while, and were dropped")
        case .claimFailed: (.error, "Claiming work failed; the next wake-up tries again")
        case .commitFailed: (.error, "The database could not commit; trying again")
        case .storeRecovered: (.notice, "The database answers again")
        case .settlementFailed: (.warning, "Work was not settled; siwatch takes it again when its claim ends")
        case .settlementRefused: (.error, "The database refuses a settlement; siwatch tries it alone next time")
        case .sealingFailed: (.error, "A token could not be sealed; siwatch tries its sign-in again")
        case .unknownClients: (.warning, "Sign-ins name clients that no app in the configuration has; they wait")
        case .tokenUndelivered: (.error, "A token that a backend has sealed does not open and is lost; its sign-in counts")
        case .grantsFromFuture: (.warning, "Sign-ins are dated ahead of Apple's clock; they wait for their time")
        case .maintenanceFailed: (.warning, "Maintenance of the database failed; it is repeated")
        case .foreignCheckpoint:
            (
                .warning,
                "Another program checkpointed the database (wrote its WAL into the file); it should set PRAGMA wal_autocheckpoint = 0"
            )
        case .logPinned:
            (.warning, "A transaction keeps the database from clearing away what was erased; erased tokens stay readable in its files")
        case .logEmptied: (.notice, "No transaction keeps the database from clearing away what was erased any more")
        case .sharedMemoryCut: (.error, "Somebody cut off the database's shared memory, which ends a siwatch at work by SIGBUS")
        case .databaseDisplaced:
            (.error, "The database file was moved, removed or replaced while siwatch has it open; siwatch is not ready")
        case .schemaForeign: (.error, "The tables are not as siwatch made them; a trigger there can copy tokens")
        case .databaseInPlace: (.notice, "The database file is at its path again")
        case .insertsBlocked: (.error, "Backends cannot insert; they lose sign-ins and notifications")
        case .insertsPossible: (.notice, "Backends can insert again")
        case .laneTaken: (.notice, "A lane is this replica's from now on")
        case .laneLost: (.notice, "A lane is this replica's no longer; another one may take it")
        case .renewalFailed: (.warning, "A renewal of this replica's lanes failed; another replica may take them when the lease ends")
        case .operatorRequestAnswered: (.notice, "An operator's request was answered")
        case .credentialChanged: (.info, "A credential changed its state")
        case .answerAmbiguous: (.error, "Apple's answer about a token is ambiguous; its state stays")
        case .answerUnavailable: (.debug, "Apple gave no usable answer; siwatch asks again later")
        case .appleUnreachable: (.warning, "Apple gives no usable answer; siwatch slows down and asks again")
        case .appleReachable: (.notice, "Apple answers again")
        case .throttled: (.warning, "Apple throttles; the app slows down")
        case .codeRejected: (.warning, "A code brought no sign-in; its user has to sign in again")
        case .signInsRejected: (.warning, "A client's sign-ins come to nothing, most of them for one reason")
        case .signInsTaken: (.notice, "A client's sign-ins come to nothing for one reason no more")
        case .codeTokenKept:
            (.info, "The token of a rejected sign-in was not revoked at Apple, so that no other sign-in ends")
        case .revocationUnproved: (.warning, "Apple still accepts a token that it was asked to revoke; siwatch asks again later")
        case .revocationRejected: (.error, "A request to revoke was rejected; nothing was revoked")
        case .revocationsBraked:
            (.error, "Too many requests to revoke in an hour; the others wait for siwatch revocations confirm or drop")
        case .tokenUnreadable: (.error, "A stored token cannot be opened; check the sealing key")
        case .clientAccepted: (.info, "Apple accepts the client with this key and team, asked without a user")
        case .clientRefused:
            (.warning, "Apple refuses the client with this key and team, asked without a user; siwatch goes on and asks again")
        case .appPaused:
            (.error, "Apple refuses the client: check key, team, client and clock. siwatch pauses the client's checks and revocations")
        case .appResumed: (.notice, "Apple accepts the client again; its checks and revocations go on")
        case .checksDoNotFit: (.warning, "A check of all tokens takes longer than refresh.interval at this rate, so checks fall behind")
        case .checksFit: (.notice, "A check of all tokens fits into refresh.interval again")
        case .breakerOpened:
            (.error, "No rejection of a token is believed for now: check client ids, key, team and Apple's status, then see siwatch status")
        case .breakerClosed: (.notice, "The breaker has closed; siwatch believes rejections again")
        case .canaryUnknown: (.warning, "A canary has no token that Apple could be asked about")
        case .teamChanged:
            (
                .warning,
                "Apple has accepted tokens of this app from another team than the configuration names; no rejection of theirs is believed"
            )
        case .signingKeysFailed: (.warning, "Apple's signing keys could not be fetched; siwatch keeps those that it has")
        case .signingKeysNotKept:
            (.warning, "Apple's signing keys were fetched and could not be written down; they count until the next start")
        case .signingKeyNew: (.notice, "Apple publishes a signing key that is new here")
        case .signingKeyRetired: (.notice, "Apple publishes a signing key no more; it counts for thirty days yet")
        case .signingKeyForgotten: (.notice, "A signing key that Apple withdrew thirty days ago does not count any more")
        case .signingKeysDisbelieved:
            (.error, "Signing keys in the database are not as siwatch wrote them; they do not count and were deleted")
        case .clockSkewed: (.warning, "The clock, of this machine or of a PostgreSQL server, is off from Apple's")
        case .clockRight: (.notice, "The clock agrees with Apple's again")
        case .clockDoubted:
            (
                .warning,
                "The clock, of this machine or of a PostgreSQL server, has jumped or is wrong; nothing is forgotten or given up by age until it can be trusted"
            )
        case .clockTrusted: (.notice, "The clock can be trusted again")
        }
    }
}

extension Logger {
    /// - Parameter level: replaces the event's own level.
    package func log(
        _ event: LoggedEvent,
        _ metadata: @autoclosure () -> Logger.Metadata = [:],
        at level: Logger.Level? = nil
    ) {
        log(
            level: level ?? event.level,
            "\(event.message)",
            metadata: metadata().merging(["event": "\(event.name)"]) { own, _ in own }
        )
    }
}
