// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Once backends ask to revoke too much, requests wait for an operator.
extension ReferenceModel {
    struct RevocationLimit {
        var hour: Range<Timestamp>?
        var opened = 0
        var isSet = false
    }

    /// - Returns: nil if one more request may be opened.
    mutating func revocationLimit(_ app: String, at now: Timestamp) -> Settled? {
        var revocationLimit = revocationLimits[app] ?? RevocationLimit()
        defer { revocationLimits[app] = revocationLimit }
        // The clock may have been set back.
        if let hour = revocationLimit.hour, now < hour.lowerBound { revocationLimit.hour = now..<now.advanced(by: .seconds(3600)) }
        if revocationLimit.hour?.contains(now) != true {
            (revocationLimit.hour, revocationLimit.opened) = (now..<now.advanced(by: .seconds(3600)), 0)
        }
        if revocationLimit.isSet { return .heldBack(reachesLimit: false) }
        revocationLimit.opened += 1
        revocationLimit.isSet = revocationLimit.opened > maxRequestsPerHour
        return revocationLimit.isSet ? .heldBack(reachesLimit: true) : nil
    }

    /// siwatch does not know how many requests it has opened, so it opens no more.
    mutating func fillLimit(_ app: String) { revocationLimits[app, default: RevocationLimit()].isSet = true }

    /// How many requests wait for an operator; nil if the revocation limit is not reached.
    func heldRequests(of app: String) -> Int? { revocationLimits[app]?.isSet ?? false ? held(app).count : nil }

    private func held(_ app: String) -> [Int64] {
        requestRows.filter { $0.value.isHeld && appOfClient[$0.value.credential.clientID] == app }.keys.sorted()
    }

    /// An operator confirms so many requests. The next process does not go on with it.
    ///
    /// - Parameters:
    ///   - confirmed: those that siwatch has let go, and when.
    ///   - isLifted: whether it has lifted the limit, as far as the model cannot tell.
    /// - Returns: how many there were, and how many would still wait; nil if the revocation limit is not reached.
    mutating func release(_ app: String, upTo limit: Int, _ confirmed: [Int64: Timestamp], isLifted: Bool) -> (count: Int, left: Int)? {
        guard revocationLimits[app]?.isSet ?? false else { return nil }
        let chosen = held(app).prefix(limit)
        let left = held(app).count - chosen.count
        for id in chosen where confirmed[id] != nil { (requestRows[id]!.isHeld, requestRows[id]!.confirmedAt) = (false, confirmed[id]) }
        // If none was held, the process may have died before it lifted the limit.
        if held(app).isEmpty, !chosen.isEmpty || isLifted { revocationLimits[app] = nil }
        return (chosen.count, left)
    }

    /// An operator drops every request that waits.
    ///
    /// - Parameters:
    ///   - waiting: those that siwatch has not dropped, because the process has died.
    ///   - isLifted: as above.
    /// - Returns: their number; nil if the revocation limit is not reached.
    mutating func drop(_ app: String, but waiting: Set<Int64>, isLifted: Bool) -> Int? {
        guard revocationLimits[app]?.isSet ?? false else { return nil }
        let dropped = held(app)
        for id in dropped where !waiting.contains(id) { _ = closeRequest(id, .rejected, .dropped) }
        if held(app).isEmpty, !dropped.isEmpty || isLifted { revocationLimits[app] = nil }
        return dropped.count
    }
}
