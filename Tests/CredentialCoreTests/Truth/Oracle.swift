// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The table of rules in docs/architecture.md, read off a whole set of facts at once.
///
/// It sees no order and keeps no register: every value is a maximum over the facts that count. It shares no rule with `Credential`,
/// so that one mistake cannot stand on both sides.
struct Oracle {
    private let facts: [Delivery]

    init(knowing arrival: Arrival) {
        facts = arrival.deliveries
    }

    func row(of client: Client) -> Row {
        let g = grants(at: client).map(\.grantedAt.milliseconds).max() ?? never
        let b = revocations(at: client).map(\.requestedAt.milliseconds).max() ?? never
        let d = events(.accountDeleted).max() ?? never
        let r = events(.consentRevoked).max() ?? never
        let t = token(at: client)
        let v = answers(.valid, at: client, about: t).max() ?? never
        let x = answers(.rejected, at: client, about: t).max() ?? never

        let (state, reason, since): (CredentialState, StateReason, Int64) =
            if d > g {
                (.notFound, .accountDeleted, d)
            } else if b != never, b >= g {
                (.revoked, .revokedByApp, b)
            } else if r > g {
                (.revoked, .consentRevoked, r)
            } else if g == never {
                (.notFound, .neverGranted, never)
            } else if v != never, x > v, v >= g || t.map({ $0.grantedAt.milliseconds >= g }) ?? false {
                (.revoked, .tokenRejected, max(v, g + 1))
            } else {
                (.authorized, .granted, g)
            }

        let isUsable = t.map { $0.grantedAt.milliseconds >= max(d, r) && $0.grantedAt.milliseconds > b } ?? false
        let relay = relay
        return Row(
            state: state,
            reason: reason,
            since: known(since),
            token: t,
            sealed: isUsable ? t.map(RefreshToken.sealedBytes) : nil,
            isAskedAbout: isUsable && x <= v,
            isNeverAccepted: isUsable && x != never && v == never,
            verifiedAt: known(v),
            rejectedAt: known(x),
            mail: mail(newerThan: d),
            relay: relay,
            shownRelay: relay.flatMap { $0.at > d ? $0.isEnabled ? .enabled : .disabled : nil }
        )
    }

    /// `T`: of the tokens at the client the one with the greatest time, then the greatest bytes.
    private func token(at client: Client) -> RefreshToken.Key? {
        grants(at: client).compactMap(\.token?.key).max { left, right in
            order(left.grantedAt.milliseconds, left.fingerprint).lexicographicallyPrecedes(
                order(right.grantedAt.milliseconds, right.fingerprint)
            )
        }
    }

    /// `M`: of the addresses at any client the one with the greatest time, an event's before a grant's, the greatest bytes, then private
    /// before not private before not known. None that is as old as the deletion of the account is kept.
    private func mail(newerThan deletion: Int64) -> Row.Mail? {
        let fromGrants = Client.allCases.flatMap(grants).compactMap { grant in
            grant.address.map { Row.Mail(at: grant.grantedAt.milliseconds, isFromEvent: false, address: Row.Address($0)) }
        }
        let fromEvents = events.compactMap { event in
            event.kind.address.map { Row.Mail(at: event.occurredAt.milliseconds, isFromEvent: true, address: Row.Address($0)) }
        }
        return (fromGrants + fromEvents).filter { $0.at > deletion }.max { left, right in
            func order(_ mail: Row.Mail) -> [Int64] {
                let privacy: Int64 = mail.address.isPrivate.map { $0 ? 2 : 1 } ?? 0
                return self.order(mail.at * 2 + (mail.isFromEvent ? 1 : 0), mail.address.bytes) + [privacy]
            }
            return order(left).lexicographicallyPrecedes(order(right))
        }
    }

    /// `F`: the newest word on forwarding; of two at one time, that it is disabled.
    private var relay: Row.Relay? {
        let words = events.compactMap { event -> Row.Relay? in
            switch event.kind {
            case .emailEnabled: Row.Relay(at: event.occurredAt.milliseconds, isEnabled: true)
            case .emailDisabled: Row.Relay(at: event.occurredAt.milliseconds, isEnabled: false)
            case .consentRevoked, .accountDeleted, .unknown: nil
            }
        }
        let newest = words.filter { $0.at == words.map(\.at).max() }
        return newest.first { !$0.isEnabled } ?? newest.first
    }

    // MARK: Facts of a kind

    private func grants(at client: Client) -> [Grant] {
        facts.compactMap { if case .grant(let grant) = $0.fact, $0.client == client { grant } else { nil } }
    }

    private func revocations(at client: Client) -> [Revocation] {
        facts.compactMap { if case .revocation(let revocation) = $0.fact, $0.client == client { revocation } else { nil } }
    }

    /// When Apple was asked about a token and gave this answer.
    private func answers(_ verdict: RefreshAnswer.Verdict, at client: Client, about token: RefreshToken.Key?) -> [Int64] {
        facts.compactMap {
            if case .answer(let answer) = $0.fact, $0.client == client, answer.token == token, answer.verdict == verdict {
                answer.requestedAt.milliseconds
            } else {
                nil
            }
        }
    }

    private var events: [Event] {
        facts.compactMap { if case .event(let event) = $0.fact { event } else { nil } }
    }

    private func events(_ kind: Event.Kind) -> [Int64] {
        events.filter { $0.kind == kind }.map(\.occurredAt.milliseconds)
    }

    // MARK: Numbers

    /// A time before all times, which stands for an absent one.
    private let never = Int64.min

    private func known(_ time: Int64) -> Int64? { time == never ? nil : time }

    /// A time and then bytes, as numbers to compare one by one. Each byte is one more than it is, and 0 ends them: a beginning comes
    /// before the whole.
    private func order(_ time: Int64, _ bytes: [UInt8]) -> [Int64] {
        [time] + bytes.map { Int64($0) + 1 } + [0]
    }
}
