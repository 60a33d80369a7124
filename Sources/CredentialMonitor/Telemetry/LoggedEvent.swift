// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import Logging

/// Every kind of log line: its level and its constant message. Everything variable is metadata. The line's name is its case in snake case,
/// and part of the program's public interface. docs/telemetry.md lists each level in this order.
package enum LoggedEvent: String, Sendable, CaseIterable {
    // MARK: The process

    case starting = "notice: siwatch starts"
    case listening = "info: Metrics and health are served"
    case doorOpen = "info: Backends are served over HTTP"
    case doorFailed = "error: Backends ask over HTTP, and the database does not answer"
    case doorRecovered = "notice: The database answers backends over HTTP again"
    case requestsRefused = "warning: The HTTP door refuses what a client asks, which may tell nobody"
    case requestsTaken = "notice: The HTTP door hardly refuses a client any more, or the client asks no more"
    case deliveryFailed = "warning: A receiver of webhooks does not take them; nothing is lost, and siwatch tries again"
    case deliveryRecovered = "notice: A receiver of webhooks takes them again"
    case deliveryStopped = "error: A receiver of webhooks said that it is gone, and nothing more is sent to it"
    case deliveryDead = "error: A receiver did not take a webhook at the last try, and is not sent it again"
    case deliverySkipped = "error: Changes were never delivered: they are past their retention, or the database was restored"
    case deliveryUnconfigured = "warning: A delivery that sent webhooks is not in the configuration, and sends none"
    case ready = "notice: siwatch is ready"
    case stopping = "notice: siwatch stops; what is in flight is settled first"
    case stopped = "notice: siwatch has stopped"
    case stopCutShort = "warning: The stop took too long; siwatch takes unfinished rows again when their leases end"
    case systemdNotTold = "warning: systemd was not told"
    case configurationDoubtful = "warning: The configuration is legal and hardly meant"
    case reloaded = "notice: The configuration was read again and taken over"
    case reloadNeedsRestart = "warning: What else has changed in the configuration counts from the next start"
    case reloadFailed = "error: The new configuration is unusable; the old one stays"
    case sealingKeysLoaded = "notice: The key file has other keys, and siwatch goes by them from now on"
    case socketUnavailable = "warning: siwatch status cannot ask over the socket, and reads the tables"
    case logLinesDropped = "warning: Log lines could not be written for a while, and were dropped"

    // MARK: Work and the database

    case claimFailed = "error: Claiming work failed; the next wake-up tries again"
    case commitFailed = "error: The database could not commit; trying again"
    case storeRecovered = "notice: The database answers again"
    case settlementFailed = "warning: Work was not settled; siwatch takes it again when its claim ends"
    case settlementRefused = "error: The database refuses a settlement; siwatch tries it alone next time"
    case sealingFailed = "error: A token could not be sealed; siwatch tries its sign-in again"
    case unknownClients = "warning: Sign-ins name clients that no app in the configuration has; they wait"
    case tokenUndelivered = "error: A token that a backend has sealed does not open and is lost; its sign-in counts"
    case grantsFromFuture = "warning: Sign-ins are dated ahead of Apple's clock; they wait for their time"
    case maintenanceFailed = "warning: Maintenance of the database failed; it is repeated"
    case foreignCheckpoint =
        "warning: Another program checkpointed the database (wrote its WAL into the file); it should set PRAGMA wal_autocheckpoint = 0"
    case logPinned =
        "warning: A transaction keeps the database from clearing away what was erased; erased tokens stay readable in its files"
    case logEmptied = "notice: No transaction keeps the database from clearing away what was erased any more"
    case databaseDisplaced = "error: The database file was moved, removed or replaced while siwatch has it open; siwatch is not ready"
    case sharedMemoryCut = "error: Somebody cut off the database's shared memory, which ends a siwatch at work by SIGBUS"
    case databaseInPlace = "notice: The database file is at its path again"
    case insertsBlocked = "error: Backends cannot insert; they lose sign-ins and notifications"
    case insertsPossible = "notice: Backends can insert again"
    case schemaForeign = "error: The tables are not as siwatch made them; a trigger there can copy tokens"
    case decisionPlanted = "error: A decision in the database is not as siwatch wrote it; it does not count"
    case laneTaken = "notice: A lane is this replica's from now on"
    case laneLost = "notice: A lane is this replica's no longer; another one may take it"
    case renewalFailed = "warning: A renewal of this replica's lanes failed; another replica may take them when the lease ends"
    case operatorRequestAnswered = "notice: An operator's request was answered"
    /// At debug level for a sign-in, because the news is who is no longer signed in.
    case credentialChanged = "info: A credential changed its state"

    // MARK: Apple

    case answerAmbiguous = "error: Apple's answer about a token is ambiguous; its state stays"
    case answerUnavailable = "debug: Apple gave no usable answer; siwatch asks again later"
    case appleUnreachable = "warning: Apple gives no usable answer; siwatch slows down and asks again"
    case appleReachable = "notice: Apple answers again"
    case throttled = "warning: Apple throttles; the app slows down"
    case codeRejected = "warning: A code brought no sign-in; its user has to sign in again"
    case signInsRejected = "warning: A client's sign-ins come to nothing, most of them for one reason"
    case signInsTaken = "notice: A client's sign-ins come to nothing for one reason no more"
    case codeTokenKept = "info: The token of a rejected sign-in was not revoked at Apple, so that no other sign-in ends"
    case revocationUnproved = "warning: Apple still accepts a token that it was asked to revoke; siwatch asks again later"
    case revocationRejected = "error: A request to revoke was rejected; nothing was revoked"
    case revocationsHeld = "error: Too many requests to revoke in an hour; the others wait for siwatch revocations confirm or drop"
    case tokenUnreadable = "error: A stored token cannot be opened; check the sealing key"
    case clientAccepted = "info: Apple accepts the client with this key and team, asked without a user"
    case clientRefused = "warning: Apple refuses the client with this key and team, asked without a user; siwatch goes on and asks again"
    case appPaused =
        "error: Apple refuses the client: check key, team, client and clock. siwatch pauses the client's checks and revocations"
    case appResumed = "notice: Apple accepts the client again; its checks and revocations go on"
    case checksDoNotFit = "warning: A check of all tokens takes longer than refresh.interval at this rate, so checks fall behind"
    case checksFit = "notice: A check of all tokens fits into refresh.interval again"
    case breakerOpened =
        "error: No rejection of a token is believed for now: check client ids, key, team and Apple's status, then see siwatch status"
    case breakerClosed = "notice: The breaker has closed; siwatch believes rejections again"
    case canaryUnknown = "warning: A canary has no token that Apple could be asked about"
    case teamChanged =
        "warning: Apple has accepted tokens of this app from another team than the configuration names; no rejection of theirs is believed"
    case signingKeysFailed = "warning: Apple's signing keys could not be fetched; siwatch keeps those that it has"
    case signingKeysNotKept = "warning: Apple's signing keys were fetched and could not be written down; they count until the next start"
    case signingKeyNew = "notice: Apple publishes a signing key that is new here"
    case signingKeyRetired = "notice: Apple publishes a signing key no more; it counts for thirty days yet"
    case signingKeyForgotten = "notice: A signing key that Apple withdrew thirty days ago does not count any more"
    case signingKeysDisbelieved = "error: Signing keys in the database are not as siwatch wrote them; they do not count and were deleted"
    case clockSkewed = "warning: The clock, of this machine or of a PostgreSQL server, is off from Apple's"
    case clockRight = "notice: The clock agrees with Apple's again"
    case clockDoubted =
        "warning: The clock, of this machine or of a PostgreSQL server, has jumped or is wrong; nothing is forgotten or given up by age until it can be trusted"
    case clockTrusted = "notice: The clock can be trusted again"

    package var name: String { definition.name }
    package var level: Logger.Level { definition.level }
    package var message: String { definition.message }

    fileprivate var definition: (name: String, level: Logger.Level, message: String) { Self.definitions[self]! }

    private static let definitions: [LoggedEvent: (name: String, level: Logger.Level, message: String)] =
        allCases.reduce(into: [:]) { definitions, event in
            let parts = event.rawValue.split(separator: ": ", maxSplits: 1).map(String.init)
            definitions[event] = (caseName(of: event), Logger.Level(rawValue: parts[0])!, parts[1])
        }
}

extension Logger {
    package func log(_ event: LoggedEvent, _ metadata: @autoclosure () -> Logger.Metadata = [:], at level: Logger.Level? = nil) {
        // Found once, because each change of a state is a line.
        let definition = event.definition
        log(
            level: level ?? definition.level,
            "\(definition.message)",
            metadata: metadata().merging(["event": "\(definition.name)"]) { own, _ in own }
        )
    }
}
