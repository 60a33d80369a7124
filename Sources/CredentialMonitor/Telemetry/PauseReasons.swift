// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// Why each app's checks are paused.
final class PauseReasons: Sendable {
    enum Reason {
        /// Apple refuses a client of the app.
        case blame
        case `operator`
    }

    private let reasons = NIOLockedValueBox<[String: Set<Reason>]>([:])

    /// - Returns: whether the app is paused for any reason.
    func note(_ reason: Reason, _ holds: Bool, of app: String) -> Bool {
        reasons.withLockedValue { reasons in
            if holds { reasons[app, default: []].insert(reason) } else { reasons[app]?.remove(reason) }
            return reasons[app]?.isEmpty == false
        }
    }

    /// - Returns: the apps that are still paused for another reason.
    func forget(_ reason: Reason) -> [String] {
        reasons.withLockedValue { reasons in
            for app in reasons.keys { reasons[app]?.remove(reason) }
            return reasons.filter { !$0.value.isEmpty }.map(\.key)
        }
    }
}
