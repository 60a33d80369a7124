// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A sealer that hides nothing and keeps a real sealer's promises: sealed bytes open for the same credential and grant alone, and a proof
/// holds for the same record alone.
///
/// The bytes are readable text. They hold the token backwards, so that a search of a file for the clear token finds only true leaks.
package struct PlainSealer: TokenSealer, UserPseudonymizer, SigningKeyVoucher, DecisionProver {
    /// The bytes were made for another credential or grant, or are damaged.
    package struct WrongSeal: Error {}

    private let ring: @Sendable () -> PlainRing

    package static let onlyKey = "eale"

    package init(ring: @escaping @Sendable () -> PlainRing) { self.ring = ring }
    package init(keys: @escaping @Sendable () -> [String] = { [PlainSealer.onlyKey] }) { ring = { PlainRing(keys()) } }

    package static func keyID(of key: String) -> String { key.utf8.map(\.hexadecimal).joined() }

    /// 32 bytes, the length of an HMAC-SHA-256.
    package func fingerprint(of token: Secret) -> [UInt8] { digest(of: Array(token.reveal.utf8)) }

    private func digest(of bytes: [UInt8]) -> [UInt8] {
        let hash = bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        var generator = SeededGenerator(seed: hash)
        return (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// The `sub` backwards.
    package func pseudonym(of userID: String) -> String { ForgottenUser.prefix + String(userID.reversed()) }

    package func prove(_ record: SigningKeyRecord) -> SigningKeyRecord {
        var proved = record
        proved.proof = Array("proved\0\(record.keyID)\0\(record.jwk)\0\(record.lastSeenAt.milliseconds)".utf8)
        return proved
    }

    package func isProved(_ record: SigningKeyRecord) -> Bool { prove(record) == record }

    package func prove(_ decision: Decision) -> [UInt8] { digest(of: Array("decided\0".utf8) + decision.contents) }
    package func isProved(_ decision: Decision, by proof: [UInt8]) -> Bool { prove(decision) == proof }

    package func seal(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) -> SealedToken {
        SealedToken(bytes: label(ring().sealingKey, for: credential, grantedAt) + token.reveal.utf8.reversed())
    }

    package func open(_ sealed: SealedToken, for credential: CredentialID, grantedAt: Timestamp) throws -> Secret {
        let held = ring()
        let labels = (held.keys + held.former).map { label($0, for: credential, grantedAt) }
        guard let found = labels.first(where: { sealed.bytes.starts(with: $0) }),
            let token = String(validating: sealed.bytes.dropFirst(found.count).reversed(), as: UTF8.self)
        else { throw WrongSeal() }
        return Secret(token)
    }

    /// - Returns: nil if the token stands under the sealing key.
    package func reseal(_ sealed: SealedToken, for credential: CredentialID, grantedAt: Timestamp) throws -> SealedToken? {
        let new = seal(try open(sealed, for: credential, grantedAt: grantedAt), for: credential, grantedAt: grantedAt)
        return new == sealed ? nil : new
    }

    /// - Parameter keyID: the sealer knows "key" only.
    package func deliver(_ token: Secret, for credential: CredentialID, at grantedAt: Timestamp, keyID: String = "key") -> [UInt8] {
        let name = "delivered by a backend, sealed to a public key"
        let fields = [name, keyID, credential.clientID, credential.userID, "\(grantedAt.milliseconds)", token.reveal]
        return Array(fields.joined(separator: "\0").utf8)
    }

    package func open(delivered sealed: [UInt8], for credential: CredentialID) throws(DeliveryError) -> DeliveredToken {
        let fields = String(decoding: sealed, as: UTF8.self).split(separator: "\0", omittingEmptySubsequences: false).map(String.init)
        guard fields.count == 6, fields[0].hasPrefix("delivered"), let grantedAt = Int64(fields[4]) else { throw .unreadable }
        guard fields[1] == "key" else { throw .unknownKey(id: fields[1]) }
        guard fields[2...3] == [credential.clientID, credential.userID] else { throw .unreadable }
        return DeliveredToken(token: Secret(fields[5]), grantedAt: Timestamp(milliseconds: grantedAt))
    }

    /// Names cannot contain a NUL, so no label is a prefix of another.
    private func label(_ key: String, for credential: CredentialID, _ grantedAt: Timestamp) -> [UInt8] {
        Array("s\(key)d\0\(credential.clientID)\0\(credential.userID)\0\(grantedAt.milliseconds)\0".utf8)
    }
}

/// The keys of a process. Each name has four letters and stands where a real sealer writes the id.
package struct PlainRing: Sendable {
    /// As they stood in the key file when the process last read it.
    package private(set) var keys: [String]
    /// Those that the process read before. They open until the process ends.
    package private(set) var former: [String] = []
    /// What each other living replica holds, as far as the process has heard.
    package var others: [[String]]

    package init(_ keys: [String], others: [[String]] = []) { (self.keys, self.others) = (keys, others) }

    package var sealingKey: String { keys.first(heldBy: others) }

    package mutating func use(_ new: [String]) {
        former += keys.filter { !new.contains($0) }
        keys = new
    }
}
