// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension StoreUpkeep {
    func maintain(at now: Timestamp) async throws {
        try await forget(at: now)
        try await sweep(at: now)
    }
}
