// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Logging

/// Every kind of log line by its stable name, its level and its constant message. Everything variable is metadata.
///
/// The names are part of the program's public interface. docs/operations.md says what to do about each event.
package struct LoggedEvent: Sendable {
    package var name: String
    package var level: Logger.Level
    package var message: String

    private init(_ name: String, _ level: Logger.Level, _ message: String) {
        self.name = name
        self.level = level
        self.message = message
    }
}

extension LoggedEvent {
    // MARK: The process

    package static let starting = LoggedEvent("starting", .notice, "siwatch starts")
    package static let listening = LoggedEvent("listening", .info, "Metrics and health are served")
    package static let ready = LoggedEvent("ready", .notice, "siwatch is ready")
    package static let stopping = LoggedEvent("stopping", .notice, "siwatch stops; what is in flight is settled first")
    package static let stopped = LoggedEvent("stopped", .notice, "siwatch has stopped")
    package static let stopCutShort = LoggedEvent(
        "stop_cut_short",
        .warning,
        "The stop took too long; what was in flight comes back when its lease ends"
    )
    package static let systemdNotTold = LoggedEvent("systemd_not_told", .warning, "systemd was not told")
    package static let configurationDoubtful = LoggedEvent(
        "configuration_doubtful",
        .warning,
        "The configuration is legal and hardly meant"
    )
    package static let reloaded = LoggedEvent("reloaded", .notice, "The configuration was read again and taken over")
    package static let reloadNeedsRestart = LoggedEvent(
        "reload_needs_restart",
        .warning,
        "What else has changed in the configuration counts from the next start"
    )
    package static let reloadFailed = LoggedEvent("reload_failed", .error, "The new configuration is unusable; the old one stays")
    package static let logLinesDropped = LoggedEvent(
        "log_lines_dropped",
        .warning,
        "Nobody read the log for a while, and lines were dropped"
    )

    // MARK: Work and the database

    static let claimFailed = LoggedEvent("claim_failed", .error, "Claiming work failed; the next wake-up tries again")
    static let commitFailed = LoggedEvent("commit_failed", .error, "The database could not commit; trying again")
    static let settlementFailed = LoggedEvent("settlement_failed", .warning, "Work was not settled; its claim runs out and it comes back")
    static let settlementRefused = LoggedEvent("settlement_refused", .error, "The database refuses a settlement; it comes back alone")
    static let sealingFailed = LoggedEvent("sealing_failed", .error, "A token could not be sealed; its grant comes back")
    static let unknownClients = LoggedEvent(
        "unknown_clients",
        .warning,
        "Grants name clients that no app in the configuration has; they wait"
    )
    static let tokenUndelivered = LoggedEvent(
        "token_undelivered",
        .error,
        "A token that a backend has sealed does not open and is lost; its sign-in counts"
    )
    static let grantsFromFuture = LoggedEvent(
        "grants_from_future",
        .warning,
        "Grants are dated further ahead than clocks may differ; they wait for their time"
    )
    static let maintenanceFailed = LoggedEvent("maintenance_failed", .warning, "Maintenance of the database failed; it is repeated")
    static let foreignCheckpoint = LoggedEvent(
        "foreign_checkpoint",
        .warning,
        "Another program wrote the database's log back; it should set PRAGMA wal_autocheckpoint = 0"
    )
    static let logPinned = LoggedEvent(
        "log_pinned",
        .warning,
        "A reader keeps the database from clearing away what was erased; erased tokens stay readable in its files"
    )
    static let logEmptied = LoggedEvent("log_emptied", .notice, "No reader keeps the database from clearing away what was erased any more")
    package static let databaseDisplaced = LoggedEvent(
        "database_displaced",
        .error,
        "The database file was moved, removed or replaced while siwatch has it open; siwatch is not ready"
    )
    package static let databaseInPlace = LoggedEvent("database_in_place", .notice, "The database file is at its path again")
    static let laneTaken = LoggedEvent("lane_taken", .notice, "A lane is this replica's from now on")
    static let laneLost = LoggedEvent("lane_lost", .notice, "A lane is this replica's no longer; another one may take it")
    static let renewalFailed = LoggedEvent(
        "renewal_failed",
        .warning,
        "The database was not told that this replica lives; what it owns becomes another's"
    )
    static let operatorRequestAnswered = LoggedEvent("operator_request_answered", .notice, "An operator's request was answered")
    /// At debug level for a sign-in, because the news is who is no longer signed in.
    static let credentialChanged = LoggedEvent("credential_changed", .info, "A credential changed its state")

    // MARK: Apple

    static let answerAmbiguous = LoggedEvent("answer_ambiguous", .error, "Apple's answer about a token is ambiguous; its state stays")
    static let answerUnavailable = LoggedEvent("answer_unavailable", .debug, "Apple gave no usable answer; asked again later")
    static let throttled = LoggedEvent("throttled", .warning, "Apple throttles; the app slows down")
    static let codeRejected = LoggedEvent("code_rejected", .warning, "A code brought no sign-in; its user has to sign in again")
    static let codeTokenKept = LoggedEvent(
        "code_token_kept",
        .info,
        "What a rejected sign-in brought was not revoked at Apple, lest somebody be signed out who is not to be"
    )
    static let revocationUnproved = LoggedEvent(
        "revocation_unproved",
        .warning,
        "Apple still accepts a token that it was asked to revoke; asked again later"
    )
    static let revocationRejected = LoggedEvent("revocation_rejected", .error, "A request to revoke was rejected; nothing was revoked")
    static let tokenUnreadable = LoggedEvent("token_unreadable", .error, "A stored token cannot be opened; check the sealing key")
    static let appPaused = LoggedEvent(
        "app_paused",
        .error,
        "Apple blames our configuration: check key, team, client and clock. The client's checks are paused, no state changes"
    )
    static let appResumed = LoggedEvent("app_resumed", .notice, "Apple accepts our configuration again; the client's checks go on")
    static let checksDoNotFit = LoggedEvent(
        "checks_do_not_fit",
        .warning,
        "A check of all tokens takes longer than refresh.interval at this rate, so checks fall behind"
    )
    static let checksFit = LoggedEvent("checks_fit", .notice, "A check of all tokens fits into refresh.interval again")
    static let breakerOpened = LoggedEvent(
        "breaker_opened",
        .error,
        "No rejection of a token is believed for now: check client ids, key, team and Apple's status, then siwatch breaker"
    )
    static let breakerClosed = LoggedEvent("breaker_closed", .notice, "Apple's answers are normal again; rejections are believed")
    static let canaryUnknown = LoggedEvent("canary_unknown", .warning, "A canary has no token that Apple could be asked about")
    static let teamChanged = LoggedEvent(
        "team_changed",
        .warning,
        "Apple has accepted tokens of this app from another team than the configuration names; no rejection of theirs is believed"
    )
    static let signingKeysFailed = LoggedEvent(
        "signing_keys_failed",
        .warning,
        "Apple's signing keys could not be fetched; the last good ones stay"
    )
    static let signingKeysNotKept = LoggedEvent(
        "signing_keys_not_kept",
        .warning,
        "Apple's signing keys were fetched and could not be written down; they count until the next start"
    )
    static let clockSkewed = LoggedEvent(
        "clock_skewed",
        .warning,
        "The clock, of this machine or of a PostgreSQL server, is off from Apple's; past a minute Apple may turn our client secrets away"
    )
    static let clockRight = LoggedEvent("clock_right", .notice, "The clock agrees with Apple's again")
    static let clockDoubted = LoggedEvent(
        "clock_doubted",
        .warning,
        "The clock, of this machine or of a PostgreSQL server, has jumped or is wrong; nothing is forgotten or given up by age until it can be trusted"
    )
    static let clockTrusted = LoggedEvent("clock_trusted", .notice, "The clock can be trusted again")

    package static let all = [
        starting, listening, ready, stopping, stopped, stopCutShort, systemdNotTold, configurationDoubtful, reloaded,
        reloadNeedsRestart, reloadFailed, logLinesDropped, claimFailed, commitFailed, settlementFailed, settlementRefused, sealingFailed,
        unknownClients, tokenUndelivered, grantsFromFuture, maintenanceFailed, foreignCheckpoint, logPinned, logEmptied,
        databaseDisplaced, databaseInPlace, laneTaken, laneLost, renewalFailed, operatorRequestAnswered, credentialChanged, answerAmbiguous,
        answerUnavailable, throttled,
        codeRejected, codeTokenKept,
        revocationUnproved, revocationRejected, tokenUnreadable,
        appPaused, appResumed, checksDoNotFit, checksFit, breakerOpened, breakerClosed, canaryUnknown, teamChanged, signingKeysFailed,
        signingKeysNotKept, clockSkewed, clockRight, clockDoubted, clockTrusted,
    ]
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
