// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Foundation

/// The handlers of the rows that backends insert, for all apps.
struct QueueHandlers {
    let notifications: NotificationHandler
    let grants: GrantHandler
    let codes: CodeHandler
    let revocations: RevocationHandler

    init(_ apps: [WatchedApp], _ apple: AppleAccess, _ shared: LaneContext, _ configuration: Configuration) {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        notifications = NotificationHandler(verifier: apple.notificationVerifier, cores: cores, shared)
        grants = GrantHandler(of: configuration.clientIDs, shared)
        codes = CodeHandler(apps: apps.map(\.atWork), verifier: apple.identityTokenVerifier, shared)
        revocations = RevocationHandler(apps: apps.map(\.atWork), shared)
    }

    var lanes: [Lane] { [notifications.lane, grants.lane, codes.lane, revocations.lane] }
}
