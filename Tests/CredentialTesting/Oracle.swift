// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The rules of docs/truth.md, applied to a whole set of facts at once.
///
/// It knows no order and keeps no register: every value is a maximum over the facts that count. Facts are bare times and bytes. The oracle
/// shares no rule with the code that it judges, so that the two cannot share a mistake.
struct Oracle {
    struct Token: Hashable {
        var grantedAt: Timestamp
        var fingerprint: [UInt8]

        init(grantedAt: Timestamp, fingerprint: [UInt8]) { (self.grantedAt, self.fingerprint) = (grantedAt, fingerprint) }
        init(_ key: RefreshToken.Key) { self.init(grantedAt: key.grantedAt, fingerprint: key.fingerprint) }
    }

    /// When Apple was asked about a token, and whether it called the token good.
    struct Answer {
        var token: Token
        var isValid: Bool
        var at: Timestamp
    }

    /// An address as bytes, because a table compares bytes and Swift treats two spellings of one character as equal.
    struct Mail: Equatable {
        var at: Timestamp
        var isFromEvent: Bool
        var address: [UInt8]
        var isPrivate: Bool?

        init(_ address: String, isPrivate: Bool? = nil, at: Timestamp, isFromEvent: Bool) {
            (self.at, self.isFromEvent) = (at, isFromEvent)
            self.address = Array(address.utf8)
            self.isPrivate = isPrivate
        }
    }

    struct Relay: Equatable {
        var at: Timestamp
        var isEnabled: Bool
    }

    // MARK: Facts of the user at one client

    var grants: Set<Timestamp> = []
    var tokens: Set<Token> = []
    /// Requests to revoke after which this client's token is dead, whatever ended it.
    var revocations: Set<Timestamp> = []
    var answers: [Answer] = []

    // MARK: Facts of the user in the app

    var consentRevocations: Set<Timestamp> = []
    var deletions: Set<Timestamp> = []
    /// Requests to revoke with a proof, at any client of the app.
    var provedRevocations: Set<Timestamp> = []
    /// Requests to revoke after which the token of any client was dead: the app has deleted the account.
    var accountEnds: Set<Timestamp> = []
    var mails: [Mail] = []
    var relays: [Relay] = []

    // MARK: Registers

    /// `T`: the token with the greatest time, then the greatest bytes.
    var token: Token? {
        tokens.max { left, right in
            left.grantedAt != right.grantedAt
                ? left.grantedAt < right.grantedAt : order(left.fingerprint).lexicographicallyPrecedes(order(right.fingerprint))
        }
    }

    /// `M`: the address with the greatest time. Ties go to an event before a grant, then to the greatest bytes, then to private before not
    /// private before unknown. An address as old as a deletion of the account, at Apple or by the app, does not count.
    var mail: Mail? {
        func rank(_ mail: Mail) -> [Int] { [mail.isFromEvent ? 1 : 0] + order(mail.address) + [mail.isPrivate.map { $0 ? 2 : 1 } ?? 0] }
        let newest = mails.max { $0.at != $1.at ? $0.at < $1.at : rank($0).lexicographicallyPrecedes(rank($1)) }
        return newest.flatMap { $0.at > deletions.union(accountEnds).max() ?? never ? $0 : nil }
    }

    /// `F`: the newest state of forwarding. Of two at one time, disabled wins.
    var relay: Relay? {
        let latest = relays.map(\.at).max()
        let newest = relays.filter { $0.at == latest }
        return newest.first { !$0.isEnabled } ?? newest.first
    }

    /// The values to show and keep.
    var standing: Standing {
        let token = token
        func latest(_ isValid: Bool) -> Timestamp {
            answers.lazy.filter { $0.token == token && $0.isValid == isValid }.map(\.at).max() ?? never
        }
        let (g, r, d) = (grants.max() ?? never, consentRevocations.max() ?? never, deletions.max() ?? never)
        let (a, b) = (provedRevocations.max() ?? never, revocations.max() ?? never)
        // Without a sign-in here, a proof at another client has ended nothing.
        let e = g == never ? b : max(a, b)
        let (t, v, x) = (token?.grantedAt ?? never, latest(true), latest(false))

        let (state, reason, since): (String, String, Timestamp) =
            if d > g {
                ("notFound", "account_deleted", d)
            } else if e != never, e >= g {
                ("revoked", "revoked_by_app", e)
            } else if r > g {
                ("revoked", "consent_revoked", r)
            } else if g == never {
                ("notFound", "never_granted", never)
            } else if v != never, x > v, max(t, v) >= g {
                ("revoked", "token_rejected", max(v, g.advanced(by: .milliseconds(1))))
            } else {
                ("authorized", "granted", g)
            }

        let isUsable = token != nil && t >= max(d, r) && t > max(a, b)
        let relay = relay
        return Standing(
            state: state,
            reason: reason,
            since: known(since),
            token: token,
            keptToken: isUsable ? token : nil,
            isAskedAbout: isUsable && x <= v,
            isNeverAccepted: isUsable && x != never && v == never,
            verifiedAt: known(v),
            rejectedAt: known(x),
            mail: mail,
            relay: relay,
            shownRelay: relay.flatMap { $0.at > d ? $0.isEnabled : nil }
        )
    }

    /// A time before all times. It stands for an absent time.
    private var never: Timestamp { Timestamp(milliseconds: .min) }
    private func known(_ time: Timestamp) -> Timestamp? { time == never ? nil : time }

    /// Bytes as numbers to compare one by one. Each is one greater than its byte, and 0 ends the list: a prefix comes before the whole.
    private func order(_ bytes: [UInt8]) -> [Int] { bytes.map { Int($0) + 1 } + [0] }

    /// The stored and shown values of one user at one client.
    struct Standing: Equatable {
        var state: String
        var reason: String
        var since: Timestamp?
        var token: Token?
        var keptToken: Token?
        var isAskedAbout: Bool
        var isNeverAccepted: Bool
        /// `V` and `X`.
        var verifiedAt: Timestamp?
        var rejectedAt: Timestamp?
        /// `M`.
        var mail: Mail?
        /// `F`: whether siwatch shows mail as forwarded.
        var relay: Relay?
        var shownRelay: Bool?
    }
}
