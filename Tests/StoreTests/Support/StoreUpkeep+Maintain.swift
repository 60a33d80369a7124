// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

extension StoreUpkeep {
    func maintain(at now: Timestamp) async throws {
        try await forget(at: now, naming: PlainSealer())
        try await sweep(at: now)
    }
}
