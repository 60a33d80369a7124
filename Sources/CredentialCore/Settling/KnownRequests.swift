// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A user's requests to revoke that siwatch has taken up: from when the newest ones count.
package struct KnownRequests: Sendable {
    private var open: [RevocationID: Timestamp] = [:]
    private var answered: Timestamp?
    private var answeredWithToken: Timestamp?

    package init() {}

    package var newest: Timestamp? { latest(answered, newestWithToken) }
    /// The newest of those that had a token, which the brake has let through.
    package var newestWithToken: Timestamp? { open.values.reduce(answeredWithToken) { latest($0, $1) } }

    /// - Parameter token: nil for a request without a token.
    package mutating func note(_ token: RevocationID?, from time: Timestamp, isOpen: Bool = false) {
        guard let token else { return answered = latest(answered, time) }
        open[token] = isOpen ? time : nil
        if !isOpen { answeredWithToken = latest(answeredWithToken, time) }
    }
}
