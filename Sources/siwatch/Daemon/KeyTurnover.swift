// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialSealing
import NIOConcurrencyHelpers
import ServiceLifecycle

/// Seals the tables anew after a change of the sealing key, and counts what each key has sealed.
struct KeyTurnover: Service {
    private let context: DaemonContext
    private let progress = NIOLockedValueBox(Progress())

    private struct Progress {
        /// By key, the seals that the tables do not count yet.
        var seals: [String: Int] = [:]
        /// The seals under other keys than the first. If there are more of them, a replica has left values behind.
        var sealsOfOthers: Int?
        /// When a walk has found nothing that opens and stands under another key than this one.
        var vain: (keyID: String, at: ContinuousClock.Instant)?
    }

    /// Rows in a transaction, and the time from one to the next: at most 1,000 rows in a second, a twentieth of the notifications that siwatch
    /// settles beside them (docs/performance.md).
    private static let portion = 200
    static let pace = Duration.milliseconds(200)

    init(_ context: DaemonContext) { self.context = context }

    func run() async throws {
        try? await cancelWhenGracefulShutdown { try await awaitHouse() }
        try await Recurring(every: .seconds(10), onFailure: context.telemetry.maintenanceFailed) { try await turn(every: Self.pace) }.run()
        // The loops have ended, so nothing more is sealed.
        try? await noteSeals()
    }

    /// Waits while a process that was killed holds the house of a server. Its sweep goes on here, and not only at the second turn.
    private func awaitHouse() async throws {
        let end = ContinuousClock.now + LaneKeeper.lease * 2
        while !context.membership.keepsHouse, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(500)) }
    }

    /// - Parameter pace: the time from one portion to the next.
    func turn(every pace: Duration) async throws {
        try await noteSeals()
        // One replica does the housekeeping for all.
        guard context.membership.keepsHouse else { return }
        let keyID = context.sealer.sealingKeyID
        var counts = try await context.store.sealedCounts()
        if isOutdated(counts, besides: keyID) { counts = try await count() }
        guard counts.keys.contains(where: { $0.key != keyID && $0.value.blobs > 0 }), !wasVain(keyID) else { return }
        let found = try await resealAll(every: pace)
        _ = try await count()
        let now = ContinuousClock.now
        progress.withLockedValue { $0.vain = found > 0 ? nil : (keyID: keyID, at: now) }
    }

    func noteSeals() async throws {
        let new = context.sealer.takeSealCounts()
        let seals = progress.withLockedValue { progress in
            progress.seals.merge(new, uniquingKeysWith: +)
            return progress.seals
        }
        try await context.store.noteSeals(seals)
        progress.withLockedValue { $0.seals = [:] }
    }

    /// Also if the ring is another: a start looks there for a key that it lacks, and counts of a retired key are of no use.
    private func isOutdated(_ counts: SealedCounts, besides keyID: String) -> Bool {
        let seals = counts.keys.filter { $0.key != keyID }.values.reduce(0) { $0 + $1.seals }
        let hasGrown = progress.withLockedValue { progress in
            defer { progress.sealsOfOthers = seals }
            return progress.sealsOfOthers.map { $0 < seals } ?? false
        }
        guard Set(counts.keys.keys) == Set(context.sealer.openingKeyIDs), let age = counts.countedAt?.duration(to: context.clock.now) else {
            return true
        }
        return hasGrown || age < .zero || age > .days(1)
    }

    /// A writer of the file can make a row that no statement finds again, and each walk reads whole tables.
    private func wasVain(_ keyID: String) -> Bool {
        progress.withLockedValue { progress in
            progress.vain.map { $0.keyID == keyID && ContinuousClock.now - $0.at < .seconds(3600) } ?? false
        }
    }

    private func count() async throws -> SealedCounts {
        try await context.sealer.count(in: context.store, at: context.clock.now)
        return try await context.store.sealedCounts()
    }

    /// Passes rows without a pause that a former walk has sealed anew, so that kills do not keep it from the end.
    ///
    /// - Returns: how many values it found to seal anew. Some may be left for the next walk.
    private func resealAll(every pace: Duration) async throws -> Int {
        let sealer = context.sealer
        var found = 0
        while context.membership.keepsHouse {
            let start = ContinuousClock.now
            let portion = try await context.store.reseal(upTo: Self.portion) { sealer.resealed($0) }
            found += portion.resealed + portion.left
            try await noteSeals()
            if portion.isDone { break }
            try Task.checkCancellation()
            if portion.resealed > 0 { try await Task.sleep(until: start + pace, clock: .continuous) }
        }
        return found
    }
}

extension CredentialSealer {
    /// Nil if the value stands under the sealing key already, or does not open. Of a token that does not open, its check tells.
    fileprivate func resealed(_ blob: SealedBlob) -> [UInt8]? {
        switch blob {
        case .token(let sealed, let credential, let grantedAt):
            (try? reseal(sealed, for: credential, grantedAt: grantedAt))?.bytes
        case .secret(let sealed, let name): try? reseal(secret: sealed, named: name)
        }
    }
}
