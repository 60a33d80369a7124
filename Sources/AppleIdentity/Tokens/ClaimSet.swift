// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The members of a signed object, read one by one; what is absent or of the wrong kind is an error that names it.
struct ClaimSet {
    private let members: [String: JSON]

    init(_ members: [String: JSON]) {
        self.members = members
    }

    /// The longest `jti`, `sub` or `type`, in bytes. Apple's have 22, 44 and 15.
    static let longestName = 255

    /// A member that is present; nil for `null`, too.
    subscript(_ name: String) -> JSON? {
        members[name] == .null ? nil : members[name]
    }

    func required(_ name: String) throws(VerificationError) -> JSON {
        guard let value = self[name] else { throw .rejected(.missingClaim, detail: name) }
        return value
    }

    /// A string that is a key of our tables: not empty, bounded, without control characters.
    func name(_ name: String) throws(VerificationError) -> String {
        guard let text = try required(name).string,
            (1...Self.longestName).contains(text.utf8.count),
            !text.utf8.contains(where: \.isControl)
        else { throw .rejected(.malformedClaim, detail: name) }
        return text
    }

    /// A NumericDate: seconds since 1970, perhaps with a fraction (RFC 7519, section 2).
    func date(_ name: String) throws(VerificationError) -> Timestamp {
        guard let seconds = try required(name).seconds else { throw .rejected(.malformedClaim, detail: name) }
        return seconds
    }
}

extension JSON {
    /// A count of seconds since 1970 as a moment; nil for what is no number or would not fit.
    fileprivate var seconds: Timestamp? {
        switch self {
        case .integer(let seconds):
            let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
            return overflow ? nil : Timestamp(milliseconds: milliseconds)
        case .number(let seconds):
            return Int64(exactly: (seconds * 1000).rounded(.down)).map(Timestamp.init(milliseconds:))
        default: return nil
        }
    }
}
