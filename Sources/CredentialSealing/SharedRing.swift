// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// A key ring and what the other living replicas hold of it, so that no replica seals what another cannot open.
struct SharedRing {
    let ring: KeyRing
    /// The ring, and below it the keys that have left it since this process began. They open too, because a settlement that was under way
    /// may bring a token that such a key has sealed.
    let opening: KeyRing
    let recipients: [TokenRecipient]
    private let installation: [UInt8]
    /// The ids of the keys of each other living replica.
    private let others: [[String]]
    /// The first key that every living replica holds. Replicas without a common key do not run beside each other, so it may be the first.
    let sealingKey: SealingKey
    /// The number of seals by key since they were last taken.
    private(set) var seals: [UInt32: Int] = [:]

    init(
        _ ring: KeyRing,
        opening: KeyRing? = nil,
        of installation: [UInt8],
        others: [[String]] = [],
        seals: [UInt32: Int] = [:]
    ) {
        self.opening = opening ?? ring
        (self.ring, self.installation, self.others, self.seals) = (ring, installation, others, seals)
        recipients = ring.recipients(of: installation)
        sealingKey = ring.first(heldBy: others)
    }

    func holding(_ ring: KeyRing) -> SharedRing {
        SharedRing(ring, opening: ring.followed(by: opening), of: installation, others: others, seals: seals)
    }

    func shared(with others: [[String]]) -> SharedRing {
        others == self.others ? self : SharedRing(ring, opening: opening, of: installation, others: others, seals: seals)
    }

    /// Counts a seal under the key that it returns.
    mutating func countSeal() -> SealingKey {
        seals[sealingKey.id, default: 0] += 1
        return sealingKey
    }

    mutating func takeSeals() -> [UInt32: Int] {
        defer { seals = [:] }
        return seals
    }
}

/// The keys turn over while siwatch runs.
extension CredentialSealer: SharedKeys {
    package var keyIDs: [String] { keys.withLockedValue(\.ring).keyIDs }

    /// Those of the ring, then those that have left it since this process began.
    package var openingKeyIDs: [String] { opening.keyIDs }

    package var sealingKeyID: String { keys.withLockedValue(\.sealingKey).id.hexadecimal }

    /// Seals with another ring from now on, and opens with the former keys too. The caller has checked that the ring opens this database.
    package func use(_ ring: KeyRing) { keys.withLockedValue { $0 = $0.holding(ring) } }

    package func share(with others: [[String]]) { keys.withLockedValue { $0 = $0.shared(with: others) } }

    /// The names of the keys that another ring lacks, so that it does not open all that these keys have sealed.
    package func keyIDs(lackingIn other: KeyRing) -> [String] { keyIDs.filter { !other.keyIDs.contains($0) } }

    /// The id under which stand the tokens that backends have sealed to a key of the ring. Nil if the ring does not hold the key.
    package func publicKeyID(of keyID: String) -> String? {
        keys.withLockedValue { keys in
            keys.ring.keyIDs.firstIndex(of: keyID).map { keys.recipients[$0].id.map(\.hexadecimal).joined() }
        }
    }

    /// Whether a value opens in its row.
    package func opens(_ blob: SealedBlob) -> Bool {
        switch blob {
        case .token(let sealed, let credential, let grantedAt): (try? open(sealed, for: credential, grantedAt: grantedAt)) != nil
        case .secret(let sealed, let name): (try? opening.open(sealed, named: name)) != nil
        }
    }

    /// Seals a token anew for the same credential and grant.
    ///
    /// - Returns: nil if it is sealed under the sealing key already.
    /// - Throws: as `open`.
    package func reseal(_ sealed: SealedToken, for credential: CredentialID, grantedAt: Timestamp) throws -> SealedToken? {
        guard Self.keyID(of: sealed.bytes) != sealingKeyID else { return nil }
        return try seal(open(sealed, for: credential, grantedAt: grantedAt), for: credential, grantedAt: grantedAt)
    }

    /// Seals a secret of the database anew, such as the fingerprint key.
    ///
    /// - Returns: nil if it is sealed under the sealing key already.
    package func reseal(secret sealed: [UInt8], named name: String) throws -> [UInt8]? {
        guard Self.keyID(of: sealed) != sealingKeyID else { return nil }
        return try seal(opening.open(sealed, named: name), for: .secret(named: name))
    }

    /// The id of the key that sealed bytes name. Nil if they are no sealed bytes.
    package static func keyID(of sealed: [UInt8]) -> String? { (try? SealedBytes(parsing: sealed))?.keyID.hexadecimal }

    /// The number of seals since the last call, by the id of the key.
    package func takeSealCounts() -> [String: Int] {
        let counts = keys.withLockedValue { $0.takeSeals() }
        return Dictionary(uniqueKeysWithValues: counts.map { ($0.key.hexadecimal, $0.value) })
    }
}
