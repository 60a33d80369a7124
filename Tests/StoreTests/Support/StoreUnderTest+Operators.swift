// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

/// What operators ask of siwatch.
extension StoreUnderTest {
    static let recheckRules = RecheckRules(refreshInterval: .seconds(86_400), requestsPerSecond: 50)

    func ask(
        _ request: OperatorRequest,
        under rules: RecheckRules = StoreUnderTest.recheckRules,
        at now: Timestamp = .start
    ) async throws -> OperatorAnswer? {
        let id = try await ports.submit(request, at: now)
        while try await ports.handleNextRequest(under: rules, at: now) != nil {}
        return try await ports.answer(to: id)
    }

    /// Searches for a user and forgets the user, as `siwatch forget` does. A payload that holds the `sub` names the user.
    func forget(
        _ user: String = "user",
        in app: String? = nil,
        evenIfAuthorized: Bool = false,
        at now: Timestamp = .start
    ) async throws -> OperatorAnswer? {
        let (alias, found) = (PlainSealer().pseudonym(of: user), try await personalData(of: user, in: app))
        let request = ErasureRequest(of: user, in: app, as: alias, evenIfAuthorized: evenIfAuthorized, found: found)
        return try await ask(.forget(request), at: now)
    }

    func personalData(of user: String = "user", in app: String? = nil) async throws -> PersonalData {
        try await ports.personalData(of: user, in: app) { String(decoding: $0, as: UTF8.self).contains(user) }
    }
}
