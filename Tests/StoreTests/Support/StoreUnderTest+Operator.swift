// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Operators' requests.
extension StoreUnderTest {
    static let recheckRules = RecheckRules(refreshInterval: .seconds(86_400), requestsPerSecond: 50)

    /// Lets the store carry out a request to its end.
    func ask(_ request: OperatorRequest, at now: Timestamp = .start) async throws -> OperatorAnswer? {
        let id = try await ports.submit(request, at: now)
        while try await ports.handleNextRequest(under: Self.recheckRules, at: now) != nil {}
        return try await ports.answer(to: id)
    }
}
