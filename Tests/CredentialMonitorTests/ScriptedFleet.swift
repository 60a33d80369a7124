// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import NIOConcurrencyHelpers

@testable import CredentialMonitor

final class ScriptedKeys: SharedKeys {
    private let known = NIOLockedValueBox<[[String]]>([])

    var others: [[String]] { known.withLockedValue(\.self) }
    let keyIDs = ["new", "old"]
    var sealingKeyID: String { keyIDs.first { id in others.allSatisfy { $0.contains(id) } } ?? keyIDs[0] }

    func share(with others: [[String]]) { known.withLockedValue { $0 = others } }
}

@dynamicMemberLookup final class ScriptedFleet: Fleet {
    struct State {
        var epoch: Int64? = 1
        var isAway = false
        var delay = Duration.zero
        /// How far its clock is ahead of the host's.
        var ahead = Duration.zero
        var elder: Replica?
        var junior: Replica?
        /// This replica at its last renewal.
        var told: Replica?
        var renewals = 0
        /// For each release, whether the lane was still at work.
        var releases: [Bool] = []
    }

    private struct Away: Error {}

    private let clock: TestClock
    private let lease: LaneLease
    private let state = NIOLockedValueBox(State())
    private let (renewed, renewal) = AsyncStream.makeStream(of: Void.self)

    init(clock: TestClock, lease: LaneLease) { (self.clock, self.lease) = (clock, lease) }

    /// What a test lets it do, and what it has done.
    subscript<Value>(dynamicMember path: WritableKeyPath<State, Value>) -> Value {
        get { state.withLockedValue { $0[keyPath: path] } }
        set { state.withLockedValue { $0[keyPath: path] = newValue } }
    }

    func renewals(_ number: Int) async throws {
        if state.withLockedValue(\.renewals) >= number { return }
        for await _ in renewed where state.withLockedValue(\.renewals) >= number { return }
    }

    func renew(_ replica: Replica, lanes: Set<FleetLane>, lease: Duration) async throws -> Tenure {
        let epoch = try state.withLockedValue { state in
            state.renewals += 1
            state.told = replica
            renewal.yield()
            if state.isAway { throw Away() }
            return state.epoch
        }
        let time = try await time
        clock.advance(by: self.delay)
        let epochs = epoch.map { epoch in Dictionary(uniqueKeysWithValues: lanes.map { ($0, epoch) }) } ?? [:]
        return Tenure(epochs: epochs, time: time, elders: [self.elder].compactMap(\.self), juniors: [self.junior].compactMap(\.self))
    }

    func release() async throws { state.withLockedValue { $0.releases.append(lease.holds) } }
    func replicas() async throws -> [ReplicaStatus] { [] }
    func replicas(for lane: FleetLane) async throws -> [Replica] { [] }
    var time: Timestamp { get async throws { clock.now.advanced(by: self.ahead) } }
}
