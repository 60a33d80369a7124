// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// What both stores ask when they claim tokens to revoke.
extension TableStore {
    /// Whether the request of a row `r` of `revocation` was opened by the time of a parameter. Does not look for it at
    /// `DueRevocation.anyTime`.
    package static func isOpened(by parameter: String) -> String {
        let isAny = "\(parameter) = \(DueRevocation.anyTime.milliseconds)"
        return "(\(isAny) OR EXISTS (SELECT 1 FROM revocation_queue q WHERE q.id = r.request AND q.opened_at <= \(parameter)))"
    }
}

extension ClientDirectory {
    /// The clients of an app of whose tokens some may be claimed. Apple is not asked about tokens of a client that left the configuration, so
    /// no pause holds them.
    ///
    /// - Parameter trusted: now, if the clock can be trusted.
    package func clientsToRevoke(of app: Int64, isPaused: Bool, at trusted: Timestamp?) -> [Client] {
        clients(of: app).filter { isWatched($0) ? !isPaused : trusted != nil }
    }
}
