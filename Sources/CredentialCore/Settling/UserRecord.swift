// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user of one app: the user's registers and a record for each client.
package struct UserRecord: Sendable {
    package let id: AppUserID
    package var registers: AppUser
    package let stored: AppUser?
    package private(set) var holdings: [Holding] = []

    package struct Holding: Sendable {
        package let clientID: String
        package var record: CredentialRecord
        package let stored: CredentialRecord?
        private let storedStanding: CredentialStanding?
        /// The published row before the current fact.
        fileprivate var published: PublishedCredential?

        fileprivate init(_ record: CredentialRecord, at clientID: String, isStored: Bool, under registers: AppUser) {
            self.clientID = clientID
            self.record = record
            stored = isStored ? record : nil
            published = isStored ? PublishedCredential(record.credential, under: registers) : nil
            storedStanding = published?.standing
        }

        package var standing: CredentialStanding? { published?.standing }

        /// Whether the store has to write the record. A change of the user's registers alone may change the state.
        package var isChanged: Bool { record != stored || published?.standing != storedStanding }
    }

    package struct Tally: Sendable, Equatable {
        package var unverified = 0
        package var pending = 0
        package var neverAccepted = 0
        package var foreign = 0
        package var ended = 0
        package var unproven = 0

        package init() {}

        package mutating func change(from before: Tally, to after: Tally) {
            unverified += after.unverified - before.unverified
            pending += after.pending - before.pending
            neverAccepted += after.neverAccepted - before.neverAccepted
            foreign += after.foreign - before.foreign
            ended += after.ended - before.ended
            unproven += after.unproven - before.unproven
        }
    }

    package init(_ id: AppUserID, stored: AppUser?, credentials: [(clientID: String, record: CredentialRecord)]) {
        self.id = id
        self.stored = stored
        let registers = stored ?? AppUser()
        self.registers = registers
        holdings = credentials.map { Holding($0.record, at: $0.clientID, isStored: true, under: registers) }
        if holdings.count > 1 { holdings.sort { $0.clientID < $1.clientID } }
    }

    package var areRegistersChanged: Bool { registers != stored ?? AppUser() }

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
        let hasSignedEnd = registers.consentRevokedAt != nil || registers.deletedAt != nil
        for holding in holdings {
            let credential = holding.record.credential
            if hasSignedEnd, credential.grantedAt != nil { tally.ended += 1 }
            if hasSignedEnd, credential.isUnproven, credential.standing(under: registers).state == .authorized { tally.unproven += 1 }
            if holding.record.isUnverified { tally.unverified += 1 }
            if holding.record.pending != nil { tally.pending += 1 }
            if holding.record.isNeverAccepted { tally.neverAccepted += 1 }
            if holding.record.answer == .anotherUser { tally.foreign += 1 }
        }
        return tally
    }

    /// Whether every client has a sign-in that is not older than the event.
    func isOutdated(_ event: Event) -> Bool {
        guard event.endsSignIns else { return false }
        let grants = holdings.compactMap(\.record.credential.grantedAt)
        return !grants.isEmpty && grants.allSatisfy { $0 >= event.occurredAt }
    }

    mutating func apply(_ grant: Grant) {
        registers.apply(grant)
        eraseEndedAddress()
    }

    mutating func apply(_ event: Event) {
        keep()
        registers.apply(event)
        eraseEndedAddress()
    }

    /// A sign-in is told at a client. A credential that another import or a backend tells too belongs to no import.
    mutating func told(at clientID: String, by importID: Int64?) {
        if let record = self[clientID], record.importedBy != importID { self[clientID]?.importedBy = nil }
    }

    /// Something besides an import tells of the user, so no undo takes a credential.
    mutating func keep() { for place in holdings.indices { holdings[place].record.importedBy = nil } }

    /// The credentials that only an import has told of.
    package func part(of importID: Int64) -> UserRecord {
        var part = self
        part.holdings.removeAll { $0.record.importedBy != importID }
        return part
    }

    /// Erases the address if the app has deleted the account since, whichever client's token was dead then.
    private mutating func eraseEndedAddress() {
        registers.eraseAddress(until: holdings.compactMap(\.record.credential.revokedAt).max())
    }

    /// Erases unusable tokens, and returns the published rows that have changed since the last fact.
    mutating func publish() -> [(clientID: String, old: PublishedCredential?, new: PublishedCredential)] {
        eraseEndedAddress()
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

    mutating func forgetRejections(under policy: RefreshPolicy) {
        for place in holdings.indices { holdings[place].record.forgetRejection(under: policy) }
    }
}
