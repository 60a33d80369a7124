// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The alerts that findings name. docs/alerts.md has a section for each.
enum Runbook: String, CaseIterable {
    case appPaused, appleErrors, backendsLockedOut, backupOld, checksLate, clockSkew, codesExpired, codesFailed, credentialsUnverified
    case decisionPlanted, deliveryBehind, deliveryRefused, doorUseless, down, finding, laneWithoutOwner, logLost, logPinned
    case massRejection, notReady, notificationsLate, notificationsWaiting, queueHeadStuck, rejectionsPending, requestsRefused
    case revocationsHeld, revocationsUnproved, rowsRejected, signingKeyPlanted, signingKeysMissing, storeErrors, storeFull, tokensUnusable

    /// As its section is linked to.
    var anchor: String { "siwatch\(rawValue.lowercased())" }
}
