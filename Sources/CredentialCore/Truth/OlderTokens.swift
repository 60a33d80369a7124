// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The keys by which siwatch recognises tokens of earlier sign-ins, which it neither keeps nor asks about. A backend with a token for each
/// device may tell all of them each night.
package struct OlderTokens: Sendable, Equatable {
    /// Newest first.
    package private(set) var keys: [RefreshToken.Key] = []

    /// More devices than people use. With more of them, an older token may be taken for a sign-in.
    package static let most = 8

    package init() {}

    mutating func insert(_ key: RefreshToken.Key) {
        guard !keys.contains(key), key.fingerprint.count <= Int(UInt8.max) else { return }
        keys.append(key)
        keys.sort(by: >)
        keys = Array(keys.prefix(Self.most))
    }

    func contains(anEarlier key: RefreshToken.Key) -> Bool { keys.contains { $0.isEarlier(than: key) } }

    // MARK: At rest

    /// For each token: the time in eight bytes, the length of the fingerprint in one, and the fingerprint. Nil if there are no tokens.
    package var bytes: [UInt8]? {
        if keys.isEmpty { return nil }
        var bytes: [UInt8] = []
        for key in keys {
            withUnsafeBytes(of: key.grantedAt.milliseconds.bigEndian) { bytes += $0 }
            bytes.append(UInt8(key.fingerprint.count))
            bytes += key.fingerprint
        }
        return bytes
    }

    /// - Parameter bytes: as in `bytes`. A last entry that is cut short is left out, which adds nothing wrong.
    package init(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while rest.count > 8 {
            let time = rest.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
            let length = Int(rest[rest.startIndex + 8])
            rest = rest.dropFirst(9)
            guard rest.count >= length else { return }
            keys.append(RefreshToken.Key(grantedAt: Timestamp(milliseconds: time), fingerprint: Array(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
    }
}

extension RefreshToken.Key {
    func isEarlier(than other: RefreshToken.Key) -> Bool { fingerprint == other.fingerprint && grantedAt < other.grantedAt }
}
