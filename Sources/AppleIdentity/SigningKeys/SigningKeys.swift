// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Apple's signing keys: fetched, stored, and forgotten a while after Apple has withdrawn them.
///
/// A retired key stays usable, because notifications signed with it may still wait. A failed fetch keeps the last good keys. Call
/// `refreshIfDue` every second or so, because an unknown key brings the next fetch forward.
package final class SigningKeys: Sendable {
    private let url: String
    private let transport: any AppleTransport
    private let store: any SigningKeyStore
    private let voucher: any SigningKeyVoucher
    private let clock: WallClock
    private let trustedTime: @Sendable () -> Timestamp?
    private let tell: @Sendable (_ change: SigningKeyChange, _ keyIDs: [String]) -> Void
    private let state = NIOLockedValueBox(State())

    /// How long a key counts after Apple last published it. A notification waits for days at most.
    static let afterlife = Duration.days(30)

    fileprivate static func isOutlived(_ lastSeenAt: Timestamp, at now: Timestamp) -> Bool { lastSeenAt.advanced(by: afterlife) < now }

    fileprivate struct State {
        var keys: [String: KnownKey] = [:]
        var schedule = KeySchedule()
    }

    fileprivate struct KnownKey {
        var key: SigningKey
        var lastSeenAt: Timestamp
        /// Whether the last fetch had it.
        var isPublished: Bool
    }

    /// - Parameters:
    ///   - trustedTime: the time by which a key may be forgotten; nil while the clock may be wrong.
    ///   - tell: hears of each change once.
    package init(
        url: String,
        transport: any AppleTransport,
        store: any SigningKeyStore,
        voucher: any SigningKeyVoucher,
        clock: WallClock,
        trustedTime: @escaping @Sendable () -> Timestamp?,
        tell: @escaping @Sendable (_ change: SigningKeyChange, _ keyIDs: [String]) -> Void
    ) {
        self.url = url
        self.transport = transport
        self.store = store
        self.voucher = voucher
        (self.clock, self.trustedTime, self.tell) = (clock, trustedTime, tell)
    }

    /// Takes the keys of an earlier process from the store, so that a restart during an outage loses none.
    package func load() async throws {
        let now = clock.now
        let records = try await provedRecords().filter { !Self.isOutlived($0.lastSeenAt, at: now) }
        state.withLockedValue { state in
            let last = records.map(\.lastSeenAt).max()
            for record in records { state.adopt(record, isPublished: record.lastSeenAt == last) }
            if let last { state.schedule.note(last) }
        }
    }

    /// The records that siwatch wrote. Deletes all others, because somebody who plants a key could sign events with it.
    private func provedRecords() async throws -> [SigningKeyRecord] {
        let records = try await store.signingKeys()
        let planted = records.filter { !voucher.isProved($0) }
        if !planted.isEmpty {
            try await store.remember([], forgetting: planted)
            tell(.disbelieved, planted.map(\.keyID))
        }
        return records.filter(voucher.isProved)
    }
}

// MARK: Asking for a key

extension SigningKeys {
    func key(_ id: String) -> SigningKey? { state.withLockedValue { $0.keys[id]?.key } }

    func claims(of token: ArraySlice<UInt8>, receivedAt: Timestamp, skew: Duration) throws(VerificationError) -> [UInt8] {
        let token = try CompactJWS(token)
        guard let key = key(token.keyID) else { throw absence(of: token.keyID, receivedAt: receivedAt, skew: skew) }
        guard key.isValid(token.signature, over: token.signedBytes) else { throw .rejected(.badSignature, detail: token.keyID) }
        return token.claims
    }

    private func absence(of id: String, receivedAt: Timestamp, skew: Duration) -> VerificationError {
        let now = clock.now
        let look = state.withLockedValue { $0.schedule.nextLook(receivedAt: receivedAt, skew: skew, now: now) }
        return look.map { .keyNotYetKnown(retryAt: $0) } ?? .rejected(.unknownKey, detail: id)
    }

    /// Retired ones included.
    package var count: Int { state.withLockedValue { $0.keys.count } }

    /// When the last successful fetch began.
    package var lastRefresh: Timestamp? { state.withLockedValue { $0.schedule.successes.last } }
}

// MARK: Fetching

package enum KeyRefresh: Sendable, Equatable {
    case notDue
    /// `unsaved` says why the store did not keep the keys; nil if it did.
    case fetched(unsaved: String?)
    /// Nothing has changed. siwatch fetches again in a minute.
    case failed(String)
}

extension SigningKeys {
    /// Fetches the keys if none is under way: every hour, a minute after a failure, and each minute while a token waits for its key.
    ///
    /// - Parameter tellsTime: whether the time of Apple's clock is wanted, too: then each minute.
    package func refreshIfDue(tellsTime: Bool = false) async -> KeyRefresh {
        let start = clock.now
        guard state.withLockedValue({ $0.schedule.begin(at: start, isUrgent: tellsTime) }) else { return .notDue }
        do {
            let set = try await SigningKeySet(from: url, over: transport)
            let (new, retired) = state.withLockedValue { $0.take(set, fetchedAt: start) }
            if !new.isEmpty { tell(.new, new) }
            if !retired.isEmpty { tell(.retired, retired) }
            return .fetched(unsaved: await save(set, fetchedAt: start))
        } catch {
            state.withLockedValue { $0.schedule.end(succeeded: false) }
            return .failed("\(error)")
        }
    }

    /// Stores the keys only once they are in use here, because that wakes the notifications that waited for them.
    private func save(_ set: SigningKeySet, fetchedAt: Timestamp) async -> String? {
        var records = set.keys.map { SigningKeyRecord(keyID: $0.id, jwk: $0.jwk, lastSeenAt: fetchedAt) }
        let published = Set(records.map(\.keyID))
        let now = trustedTime()
        var forgotten = now.map { now in state.withLockedValue { $0.forget(at: now) } } ?? []
        defer { if !forgotten.isEmpty { tell(.forgotten, forgotten.sorted()) } }
        do {
            var outlived: [SigningKeyRecord] = []
            for var record in try await provedRecords() where !published.contains(record.keyID) {
                if let now, Self.isOutlived(record.lastSeenAt, at: now) {
                    outlived.append(record)
                    forgotten.insert(record.keyID)
                    continue
                }
                // Seen by a clock that was ahead. The afterlife counts from now.
                if let now, record.lastSeenAt > now {
                    record.lastSeenAt = now
                    records.append(record)
                }
                // Another replica may have fetched it.
                state.withLockedValue { [record] in $0.adopt(record, isPublished: false) }
            }
            try await store.remember(records.map(voucher.prove), forgetting: outlived)
            return nil
        } catch {
            return "\(error)"
        }
    }
}

extension SigningKeys.State {
    /// Apple's latest key for an id replaces the earlier one, and keys that are not in the set stay for a while.
    mutating func take(_ set: SigningKeySet, fetchedAt: Timestamp) -> (new: [String], retired: [String]) {
        schedule.end(succeeded: true)
        let new = set.keys.filter { keys[$0.id]?.key.jwk != $0.jwk }.map(\.id)
        let published = Set(set.keys.map(\.id))
        let retired = keys.filter { $0.value.isPublished && !published.contains($0.key) }.keys.sorted()
        for id in retired { keys[id]?.isPublished = false }
        for key in set.keys { keys[key.id] = SigningKeys.KnownKey(key: key, lastSeenAt: fetchedAt, isPublished: true) }
        return (new, retired)
    }

    /// Takes a key from the store, if it is not known better.
    mutating func adopt(_ record: SigningKeyRecord, isPublished: Bool) {
        guard let key = JSON(Array(record.jwk.utf8)).flatMap(SigningKey.init), key.id == record.keyID else { return }
        if keys[key.id]?.isPublished != true {
            keys[key.id] = SigningKeys.KnownKey(key: key, lastSeenAt: record.lastSeenAt, isPublished: isPublished)
        }
    }

    mutating func forget(at now: Timestamp) -> Set<String> {
        let gone = keys.filter { !$0.value.isPublished && SigningKeys.isOutlived($0.value.lastSeenAt, at: now) }.keys
        for id in gone { keys[id] = nil }
        return Set(gone)
    }
}
