// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The members of a signed object. An absent one, or one of the wrong kind, is an error with its name.
struct ClaimSet {
    let members: [String: JSON]

    init(_ members: [String: JSON]) { self.members = members }

    /// - Throws: `malformed_claim` for a body that is not JSON, because Apple signed it.
    init(_ bytes: [UInt8]) throws(VerificationError) {
        guard let members = JSON(bytes)?.object else { throw .rejected(.malformedClaim, detail: "claims are not a JSON object") }
        self.members = members
    }

    /// A present member; nil for `null` too.
    subscript(_ name: String) -> JSON? { members[name] == .null ? nil : members[name] }

    func required(_ name: String) throws(VerificationError) -> JSON {
        guard let value = self[name] else { throw .rejected(.missingClaim, detail: name) }
        return value
    }

    /// A key of our tables. All of it shows on a screen, because otherwise two names could look alike. Apple's longest, `sub`, has 44 bytes.
    func name(_ name: String) throws(VerificationError) -> String {
        guard let text = try required(name).string,
            (1...255).contains(text.utf8.count),
            text.unicodeScalars.allSatisfy(\.isPrintable)
        else { throw .rejected(.malformedClaim, detail: name) }
        return text
    }

    /// A NumericDate: seconds since 1970, perhaps with a fraction (RFC 7519, section 2).
    func date(_ name: String) throws(VerificationError) -> Timestamp {
        guard let seconds = try required(name).seconds else { throw .rejected(.malformedClaim, detail: name) }
        return seconds
    }
}

/// Claims with the same meaning in every token of Apple's.
extension ClaimSet {
    func checkIssuer(_ issuers: Set<String>) throws(VerificationError) {
        let issuer = try name("iss")
        guard issuers.contains(where: issuer.isIdentical(to:)) else { throw .rejected(.wrongIssuer, detail: issuer.excerpt()) }
    }

    /// The client that `aud` names. `aud` is a string, or an array of one string.
    func audience(among clientIDs: Set<String>) throws(VerificationError) -> String {
        let claim = try required("aud")
        let elements = claim.array ?? [claim]
        guard elements.count == 1, let audience = elements[0].string else { throw .rejected(.malformedClaim, detail: "aud") }
        guard let index = clientIDs.firstIndex(of: audience), clientIDs[index].isIdentical(to: audience) else {
            throw .rejected(.wrongAudience, detail: audience.excerpt())
        }
        return clientIDs[index]
    }

    /// `is_private_email`: a string in Apple's tokens, or a Boolean.
    func isPrivateEmail() throws(VerificationError) -> Bool? {
        switch self["is_private_email"] {
        case nil: nil
        case .bool(let value): value
        case .string("true"): true
        case .string("false"): false
        default: throw .rejected(.malformedClaim, detail: "is_private_email")
        }
    }
}

extension Timestamp {
    /// The smallest number that counts as milliseconds. As seconds it would be the year 5138, as milliseconds it is 1973.
    private static let leastMilliseconds: Int64 = 100_000_000_000

    /// A time in a claim; nil from the year 5138 on, as for a number in microseconds. Apple has changed the unit of one claim.
    init?(claim number: Int64) {
        guard number < Self.leastMilliseconds * 1000 else { return nil }
        self.init(milliseconds: number >= Self.leastMilliseconds ? number : max(number, 0) * 1000)
    }
}

extension JSON {
    /// A count of seconds since 1970 as a moment; nil for what is no number or would not fit.
    fileprivate var seconds: Timestamp? {
        switch self {
        case .integer(let number): return Timestamp(claim: number)
        case .number(let seconds):
            return Int64(exactly: (seconds * 1000).rounded(.down)).map(Timestamp.init(milliseconds:))
        default: return nil
        }
    }
}

extension String {
    /// Foreign text, safe for a log line or the quarantine. A word of 40 characters or more, or with an @, becomes "…", because a refresh
    /// token has about 64, a `sub` 44, and a signed token hundreds.
    func excerpt(limit: Int = 160) -> String {
        let printable = String(String.UnicodeScalarView(unicodeScalars.map { $0.isPrintable ? $0 : " " }))
        let words = printable.split(separator: " ").map { $0.unicodeScalars.count < 40 && !$0.contains("@") ? $0 : "…" }
        return String(words.joined(separator: " ").prefix(limit))
    }
}
