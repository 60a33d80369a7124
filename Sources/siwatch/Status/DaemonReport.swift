// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// What only the running siwatch knows of itself.
struct DaemonReport: Encodable {
    var host: String
    var processID: Int32
    var startedAt: Timestamp
    /// Whether the file of the program was replaced or removed since the start.
    var isReplaced: Bool
    /// Why what stands there now would not start; empty if it would, nil before a try.
    var replacementObstacle: String?
    /// Why nobody should rely on this process now, one sentence each. Empty if it is ready.
    var troubles: [String]
    /// When it last tried whether backends can insert; nil before the first try.
    var insertsTriedAt: Timestamp?
    /// When the figures were last read from the tables, and why not since; both are nil if they were never read.
    var tablesReadAt: Timestamp?
    var tablesUnread: String?
    var reload: Reload
    /// Why a start with the key file on disk would not open what this process seals; nil if it would.
    var keyFileTrouble: String?
    /// The id of the key under which this process seals.
    var sealingKeyID: String?
    /// How far Apple's clock is ahead of the clock that siwatch goes by, in milliseconds; nil until Apple has answered.
    var appleClockSkew: Int64?
    /// Whether nothing is deleted by age, because the clock cannot be trusted.
    var isClockHeld: Bool
    /// What Apple said of each client when siwatch asked about its key.
    var keyTrials: [KeyTrial]
    var answers: [LaneAnswer]
    var absences: [AppAbsence]
    var checks: [AppChecks]
    /// Why what Apple posts does not arrive here; nil if it does, or if no URL is configured.
    var intakeObstacle: String?
    var refusals: [RefusedRequests]
    /// The webhooks that this process delivers.
    var deliveries: [DeliveryState]
    /// When a signing key in the database was last found that siwatch had not written; nil if none was.
    var keysDisbelievedAt: Timestamp?
    /// When a decision in the database was last found that siwatch had not written; nil if none was.
    var decisionPlantedAt: Timestamp?
    /// File descriptors, and how many may be open; nil where the system does not say.
    var openFiles: Int?
    var mostOpenFiles: Int?
    /// The last warnings and errors of the log, oldest first.
    var warnings: [LogLine]
    /// Lines of the log that could not be written; nil if none was lost.
    var lostLines: LostLines?

    /// The last time the configuration was read.
    struct Reload: Encodable, Equatable {
        var at: Timestamp
        /// Why it was not taken over; empty if it was.
        var mistakes: [String] = []
        /// The keys whose new values wait for a restart.
        var needsRestart: [String] = []
    }
}
