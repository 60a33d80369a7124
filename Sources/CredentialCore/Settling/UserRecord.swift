// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user of one app: the registers of the user, and a record for each client.
package struct UserRecord: Sendable {
    package let id: AppUserID
    package var registers: AppUser
    /// As the store has them; nil where it has none.
    package let stored: AppUser?
    /// By client.
    package private(set) var holdings: [Holding] = []

    /// A user's credential at one client.
    package struct Holding: Sendable {
        package let clientID: String
        package var record: CredentialRecord
        /// As the store has it; nil for a client without a row.
        package let stored: CredentialRecord?
        /// What the store shows of it; nil for a client without a row.
        private let storedStanding: CredentialStanding?
        /// What was shown before the fact at hand.
        fileprivate var published: PublishedCredential?

        fileprivate init(_ record: CredentialRecord, at clientID: String, isStored: Bool, under registers: AppUser) {
            self.clientID = clientID
            self.record = record
            stored = isStored ? record : nil
            published = isStored ? PublishedCredential(record.credential, under: registers) : nil
            storedStanding = published?.standing
        }

        /// What it comes to now.
        package var standing: CredentialStanding? { published?.standing }

        /// Whether the store has to write it. A change of the user's registers alone may change what a credential comes to.
        package var isChanged: Bool { record != stored || published?.standing != storedStanding }
    }

    /// How many of a user's clients count towards the app's tallies.
    package struct Tally: Sendable, Equatable {
        package var unverified = 0
        package var pending = 0
        package var neverAccepted = 0
        package var foreign = 0

        package init() {}

        package mutating func change(from before: Tally, to after: Tally) {
            unverified += after.unverified - before.unverified
            pending += after.pending - before.pending
            neverAccepted += after.neverAccepted - before.neverAccepted
            foreign += after.foreign - before.foreign
        }
    }

    /// - Parameters:
    ///   - stored: nil for a user of whom no event is known.
    ///   - credentials: in any order.
    package init(_ id: AppUserID, stored: AppUser?, credentials: [(clientID: String, record: CredentialRecord)]) {
        self.id = id
        self.stored = stored
        let registers = stored ?? AppUser()
        self.registers = registers
        holdings = credentials.map { Holding($0.record, at: $0.clientID, isStored: true, under: registers) }
        if holdings.count > 1 { holdings.sort { $0.clientID < $1.clientID } }
    }

    /// Whether the store has to write the registers of the user.
    package var areRegistersChanged: Bool { registers != stored ?? AppUser() }

    /// The record at a client; nil where there is none.
    package subscript(clientID: String) -> CredentialRecord? {
        get { holdings.first { $0.clientID == clientID }?.record }
        set {
            guard let newValue else { preconditionFailure("a record is never taken out") }
            if let place = holdings.firstIndex(where: { $0.clientID == clientID }) {
                holdings[place].record = newValue
            } else {
                let place = holdings.firstIndex { $0.clientID > clientID } ?? holdings.endIndex
                holdings.insert(Holding(newValue, at: clientID, isStored: false, under: registers), at: place)
            }
        }
    }

    package var tally: Tally {
        var tally = Tally()
        for holding in holdings {
            if holding.record.isUnverified { tally.unverified += 1 }
            if holding.record.pending != nil { tally.pending += 1 }
            if holding.record.isNeverAccepted { tally.neverAccepted += 1 }
            if holding.record.answer == .anotherUser { tally.foreign += 1 }
        }
        return tally
    }

    /// Whether a sign-in at least as new stands above an event at every client.
    func isOutdated(_ event: Event) -> Bool {
        guard event.endsSignIns else { return false }
        let grants = holdings.compactMap(\.record.credential.grantedAt)
        return !grants.isEmpty && grants.allSatisfy { $0 >= event.occurredAt }
    }

    /// What a fact has changed of what is shown, since the one before. What cannot be used any more is erased.
    mutating func publish() -> [(clientID: String, old: PublishedCredential?, new: PublishedCredential)] {
        var changes: [(clientID: String, old: PublishedCredential?, new: PublishedCredential)] = []
        for place in holdings.indices {
            holdings[place].record.eraseUnusableToken(under: registers)
            let old = holdings[place].published
            let new = PublishedCredential(holdings[place].record.credential, under: registers)
            guard new != old else { continue }
            holdings[place].published = new
            changes.append((holdings[place].clientID, old, new))
        }
        return changes
    }

    /// The breaker of the app has opened.
    mutating func forgetRejections(under policy: RefreshPolicy) {
        for place in holdings.indices { holdings[place].record.forgetRejection(under: policy) }
    }
}
