// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// All that is kept and shown of one user at one client, in types that are equal where their bytes are.
struct Row: Equatable {
    /// An address as a table compares it: Swift holds two spellings of one character for equal.
    struct Address: Equatable {
        var bytes: [UInt8]
        var isPrivate: Bool?
    }

    struct Mail: Equatable {
        var at: Int64
        var isFromEvent: Bool
        var address: Address
    }

    struct Relay: Equatable {
        var at: Int64
        var isEnabled: Bool
    }

    var state: CredentialState
    var reason: StateReason
    var since: Int64?
    /// `T`, and its sealed bytes while they are kept.
    var token: RefreshToken.Key?
    var sealed: [UInt8]?
    var isAskedAbout: Bool
    var isNeverAccepted: Bool
    /// `V` and `X`.
    var verifiedAt: Int64?
    var rejectedAt: Int64?
    /// `M`.
    var mail: Mail?
    /// `F`, and what is shown of it.
    var relay: Relay?
    var shownRelay: Forwarding.Status?
}

extension Row {
    /// One line for each column that differs: its name, what it holds here and what it holds there.
    func differences(from other: Row) -> [String] {
        zip(Mirror(reflecting: self).children, Mirror(reflecting: other).children).compactMap { mine, theirs in
            let (found, expected) = ("\(mine.value)", "\(theirs.value)")
            return found == expected ? nil : "\(mine.label ?? "?") \(found) / \(expected)"
        }
    }
}

extension RefreshToken {
    /// A token whose sealed bytes follow from its key, so that a test can tell whose they are.
    static func sealedForTest(_ key: Key) -> RefreshToken {
        RefreshToken(key: key, sealed: SealedToken(bytes: sealedBytes(of: key)))
    }

    static func sealedBytes(of key: Key) -> [UInt8] {
        Array("sealed \(key.fingerprint) of \(key.grantedAt.milliseconds)".utf8)
    }
}
