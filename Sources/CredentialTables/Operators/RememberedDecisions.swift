// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What a `DecisionMemory` keeps.
struct RememberedDecisions: Codable {
    /// A proof too, so that the memory of another database does not count.
    private var database: [UInt8]
    /// By app, proofs of the counts of its revocation limit that may stand there.
    private var limits: [String: Set<[UInt8]>]

    init(_ limits: [String: Set<[UInt8]>], of prover: any DecisionProver) {
        (database, self.limits) = (prover.prove(.database), limits)
    }

    /// - Returns: nil if the memory is of another database.
    func limits(of prover: any DecisionProver) -> [String: Set<[UInt8]>]? {
        prover.isProved(.database, by: database) ? limits : nil
    }
}
