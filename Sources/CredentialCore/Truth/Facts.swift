// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A sign-in, as the app's backend reported it.
package struct Grant: Sendable, Equatable {
    /// When the sign-in happened: best the id_token's `iat`, which is Apple's clock.
    package var grantedAt: Timestamp
    /// The refresh token of the sign-in; nil if the backend verified the sign-in itself.
    package var token: RefreshToken?
    package var address: EmailAddress?

    package init(grantedAt: Timestamp, token: RefreshToken? = nil, address: EmailAddress? = nil) {
        (self.grantedAt, self.token, self.address) = (grantedAt, token, address)
    }
}

/// The content of a verified server-to-server notification.
package struct Event: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case consentRevoked
        case accountDeleted
        case emailEnabled(EmailAddress?)
        case emailDisabled(EmailAddress?)
        /// A type that Apple has not documented. siwatch logs it and changes nothing.
        case unknown
    }

    package var kind: Kind
    /// Apple's `event_time`.
    package var occurredAt: Timestamp

    package init(_ kind: Kind, at occurredAt: Timestamp) {
        self.kind = kind
        self.occurredAt = occurredAt
    }

    var endsSignIns: Bool {
        switch kind {
        case .consentRevoked, .accountDeleted: true
        case .emailEnabled, .emailDisabled, .unknown: false
        }
    }
}

package struct RefreshAnswer: Sendable, Equatable {
    package enum Verdict: Sendable, Equatable {
        case valid
        /// An *admitted* `invalid_grant`. A held one is no fact.
        case rejected
    }

    package var verdict: Verdict
    package var token: RefreshToken.Key
    /// When the request was sent. The answer says nothing of later events.
    package var requestedAt: Timestamp
    package var teamID: String?

    package init(_ verdict: Verdict, token: RefreshToken.Key, requestedAt: Timestamp, teamID: String? = nil) {
        self.verdict = verdict
        self.token = token
        self.requestedAt = requestedAt
        self.teamID = teamID
    }
}

/// A refresh token at rest, with a key that tells two tokens apart.
package struct RefreshToken: Sendable, Equatable {
    package struct Key: Sendable, Hashable, Comparable {
        package var grantedAt: Timestamp
        /// HMAC-SHA-256 of the token. Equal tokens have equal fingerprints, under any sealing key.
        package var fingerprint: [UInt8]

        package init(grantedAt: Timestamp, fingerprint: [UInt8]) {
            self.grantedAt = grantedAt
            self.fingerprint = fingerprint
        }

        package static func < (left: Key, right: Key) -> Bool {
            left.grantedAt != right.grantedAt
                ? left.grantedAt < right.grantedAt
                : left.fingerprint.lexicographicallyPrecedes(right.fingerprint)
        }
    }

    package var key: Key
    /// The sealed bytes; nil once erased.
    package var sealed: SealedToken?

    package init(key: Key, sealed: SealedToken?) {
        self.key = key
        self.sealed = sealed
    }
}

/// A refresh token as ciphertext. Only the sealing module knows the content.
package struct SealedToken: Sendable, Hashable {
    package var bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }
}

package struct EmailAddress: Sendable, Hashable {
    package var text: String
    package var isPrivate: Bool?

    package init(_ text: String, isPrivate: Bool? = nil) {
        self.text = text
        self.isPrivate = isPrivate
    }

    /// Compares bytes, as tables and mail servers do. `String` would take two spellings of one character for equal.
    package static func == (left: EmailAddress, right: EmailAddress) -> Bool {
        left.text.utf8.elementsEqual(right.text.utf8) && left.isPrivate == right.isPrivate
    }
}
