// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import CredentialSealing
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers

/// The text of each token in the tables. The daemon does not run while this seals or opens them.
struct KnownTokens: Sendable {
    private let place: Workplace
    private let ofSignIns: [String: String]

    private static let portion = 1000

    init(of signIns: [SignIn], in place: Workplace) {
        self.place = place
        ofSignIns = Dictionary(uniqueKeysWithValues: signIns.map { ($0.userID, $0.refreshToken ?? "") })
    }

    private func text(of credential: CredentialID) -> Secret { Secret(ofSignIns[credential.userID] ?? "r.\(credential.userID)") }

    /// Seals a token for each credential of `CredentialTable` with siwatch's own code, in the place of bytes that open under no key.
    func seal() async throws {
        try await walk(with: place.keyRing()) { sealer, sealed, credential, grantedAt in
            if (try? sealer.open(sealed, for: credential, grantedAt: grantedAt)) != nil { return nil }
            return try sealer.seal(text(of: credential), for: credential, grantedAt: grantedAt).bytes
        }
        try await place.vacuum()
    }

    /// Opens every token under the first key of the key file alone.
    ///
    /// - Returns: how many there are.
    /// - Throws: if one does not open, or has another text than before.
    func open() async throws -> Int {
        let opened = NIOLockedValueBox(0)
        try await walk(with: KeyRing(parsing: place.keyRing().line)) { sealer, sealed, credential, grantedAt in
            guard try sealer.open(sealed, for: credential, grantedAt: grantedAt) == text(of: credential) else {
                throw HarnessError("the token of \(credential.userID) is another than before")
            }
            opened.withLockedValue { $0 += 1 }
            return nil
        }
        return opened.withLockedValue { $0 }
    }

    /// - Parameter change: the new bytes, or nil for a token that stays as it is.
    private func walk(
        with ring: KeyRing,
        _ change: @Sendable (CredentialSealer, SealedToken, CredentialID, Timestamp) throws -> [UInt8]?
    ) async throws {
        let store = try place.openStore()
        guard let key = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) else {
            throw HarnessError("the database has no fingerprint key")
        }
        let sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: key)
        var isDone = false
        while !isDone {
            let portion = try await store.reseal(upTo: Self.portion) { blob in
                guard case .token(let sealed, let credential, let grantedAt) = blob else { return nil }
                return try change(sealer, sealed, credential, grantedAt)
            }
            isDone = portion.isDone
        }
        try await store.close()
    }
}

extension Workplace {
    func keyRing() throws -> KeyRing {
        try KeyRing(parsing: String(contentsOf: folder.url.appending(path: "siwatch.key"), encoding: .utf8))
    }
}
