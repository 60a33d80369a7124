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

    /// How many requests wait for an operator; nil if the revocation limit is not reached.
    func heldRequests(of app: String) -> Int? { revocationLimits[app]?.isSet ?? false ? held(app).count : nil }

    private func held(_ app: String) -> [Int64] {
        requestRows.filter { $0.value.isHeld && appOfClient[$0.value.credential.clientID] == app }.keys.sorted()
    }

    /// An operator confirms so many requests.
    ///
    /// - Returns: how many there were, and how many still wait; nil if the revocation limit is not reached.
    mutating func release(_ app: String, upTo limit: Int) -> (count: Int, left: Int)? {
        guard revocationLimits[app]?.isSet ?? false else { return nil }
        let confirmed = held(app).prefix(limit)
        for id in confirmed { (requestRows[id]!.isHeld, requestRows[id]!.isConfirmed) = (false, true) }
        let left = held(app).count
        if left == 0 { revocationLimits[app] = nil }
        return (confirmed.count, left)
    }

    /// An operator drops every request that waits.
    ///
    /// - Returns: their number; nil if the revocation limit is not reached.
    mutating func drop(_ app: String) -> Int? {
        guard revocationLimits[app]?.isSet ?? false else { return nil }
        let dropped = held(app)
        for id in dropped { _ = closeRequest(id, .rejected, .dropped) }
        revocationLimits[app] = nil
        return dropped.count
    }
}
