// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// Actions of people, as Swift calls. The control routes offer the same over HTTP.
extension AppleSimulator {
    /// Makes new people who sign in for the first time. It signs nothing, so ten thousand take a blink.
    package func createUsers(
        _ count: Int,
        address: AddressKind = .relay,
        _ options: SignInOptions = SignInOptions()
    ) throws(SimulatorError) -> [SignIn] {
        try change { world, now throws(SimulatorError) in try world.signUp(count, address: address, options, now: now) }
    }

    package func createUser(address: AddressKind = .relay, _ options: SignInOptions = SignInOptions()) throws(SimulatorError) -> SignIn {
        try createUsers(1, address: address, options)[0]
    }

    /// People sign in again. They get new tokens and renew a revoked consent.
    package func signIn(_ people: People, _ options: SignInOptions = SignInOptions()) throws(SimulatorError) -> [SignIn] {
        try change { world, now throws(SimulatorError) in
            try world.signIn(world.choose(people, for: .signIn), options, now: now)
        }
    }

    package func signIn(_ userID: String, _ options: SignInOptions = SignInOptions()) throws(SimulatorError) -> SignIn {
        try signIn(.these([userID]), options)[0]
    }

    /// People stop using Sign in with Apple for the group of `clientID` or, without it, of their latest sign-in.
    package func revokeConsent(
        of people: People,
        clientID: String? = nil,
        _ emission: Emission = Emission()
    ) async throws -> [SignedNotification] {
        let drafts = try change { world, now throws(SimulatorError) in
            try world.revokeConsent(of: world.choose(people, for: .endOfConsent), clientID: clientID, emission, now: now)
        }
        return try await emit(drafts)
    }

    /// People delete their Apple Accounts. Apple sends one notification for each app group that had their consent.
    package func deleteAccounts(of people: People, _ emission: Emission = Emission()) async throws -> [SignedNotification] {
        let drafts = try change { world, now throws(SimulatorError) in
            try world.deleteAccounts(of: world.choose(people, for: .deletion), emission, now: now)
        }
        return try await emit(drafts)
    }

    /// People switch the forwarding of relay mail off or on.
    package func setForwarding(
        of people: People,
        _ isForwarding: Bool,
        clientID: String? = nil,
        _ emission: Emission = Emission()
    ) async throws -> [SignedNotification] {
        let drafts = try change { world, now throws(SimulatorError) in
            let chosen = try world.choose(people, for: .forwarding(isForwarding))
            return try world.setForwarding(of: chosen, isForwarding, clientID: clientID, emission, now: now)
        }
        return try await emit(drafts)
    }

    /// People change the password of their Apple Accounts. Their tokens die, and Apple sends no notification.
    package func changePasswords(of people: People) throws(SimulatorError) {
        try change { world, now throws(SimulatorError) in
            try world.changePasswords(of: world.choose(people, for: .passwordChange), now: now)
        }
    }

    /// Signs a notification about people and changes nothing here: a claim out of order, or a lie.
    package func emit(
        _ type: NotificationType,
        about people: People,
        clientID: String? = nil,
        _ emission: Emission = Emission()
    ) async throws -> [SignedNotification] {
        let drafts = try change { world, now throws(SimulatorError) in
            try world.claim(type, about: world.choose(people, for: .claim), clientID: clientID, emission, now: now)
        }
        return try await emit(drafts)
    }

    /// Sends a notification once more, byte by byte.
    package func redeliver(_ notificationID: String) throws(SimulatorError) -> SignedNotification {
        let notification = world.withLockedValue { $0.notifications[notificationID] }
        guard let notification else { throw .unknownNotification(notificationID) }
        delivery?.enqueue([notification])
        return notification
    }

    /// Signs drafts on all cores, keeps the results for ``redeliver(_:)`` and posts them to the configured endpoint, if any.
    func emit(_ drafts: [NotificationDraft]) async throws -> [SignedNotification] {
        let notifications = try await drafts.concurrentMap { try $0.signed() }
        world.withLockedValue { world in
            world.counters.notifications.emitted += notifications.count
            for notification in notifications { world.notifications.append(notification) }
        }
        delivery?.enqueue(zip(drafts, notifications).filter(\.0.isDelivered).map(\.1))
        return notifications
    }

    private func change<Result: Sendable>(
        _ body: (inout AppleWorld, Moment) throws(SimulatorError) -> Result
    ) throws(SimulatorError) -> Result {
        try world.withLock { world throws(SimulatorError) in try body(&world, world.now) }
    }
}
