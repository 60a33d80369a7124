// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// Clock, keys and faults of the world.
extension AppleSimulator {
    /// The present moment by Apple's clock.
    package var now: Moment { world.withLockedValue { $0.now } }

    /// How far Apple's clock is ahead of the machine's. Set it forward instead of sleeping.
    package var clockOffset: Duration {
        get { world.withLockedValue { $0.clockOffset } }
        set { world.withLockedValue { $0.clockOffset = newValue } }
    }

    /// Publishes a new key and signs with it from now on.
    ///
    /// - Parameter keepingFormer: whether `/auth/keys` goes on showing the former keys.
    /// - Returns: the ids of the published keys; the last one signs.
    @discardableResult
    package func rotateKeys(keepingFormer: Bool = true) throws -> [String] {
        let key = try SigningKey()
        return world.withLockedValue { world in
            world.signingKeys.rotate(to: key, keepingFormer: keepingFormer)
            return world.signingKeys.ids
        }
    }

    /// The ids of the published keys; the last one signs.
    package var signingKeyIDs: [String] { world.withLockedValue { $0.signingKeys.ids } }

    /// Enables a key for the app group of `clientID`, as the developer portal does.
    package func register(_ key: RegisteredKey, for clientID: String) throws(SimulatorError) {
        try world.withLock { world throws(SimulatorError) in try world.register(key, for: clientID) }
    }

    /// Revokes a key, as the developer portal does.
    package func revokeKey(_ id: String) throws(SimulatorError) {
        try world.withLock { world throws(SimulatorError) in try world.revokeKey(id) }
    }

    /// - Returns: the id to clear it by.
    @discardableResult
    package func script(_ fault: Fault) -> Int {
        world.withLockedValue { $0.faults.add(fault) }
    }

    package func clearFault(_ id: Int) throws(SimulatorError) {
        try world.withLock { world throws(SimulatorError) in try world.faults.clear(id) }
    }

    package func clearFaults() {
        world.withLockedValue { $0.faults.clear() }
    }

    package var faults: [ScheduledFault] { world.withLockedValue { $0.faults.all } }
}
