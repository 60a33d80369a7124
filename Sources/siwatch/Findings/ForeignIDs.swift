// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// How many of the newest sign-ins name a user whose id does not look like Apple's. No notification of Apple's meets such a user.
struct ForeignIDs {
    private var (signIns, foreign) = (0, 0)

    init() {}

    init(_ store: any CredentialStore) async throws {
        let users = try await store.newestSignIns(upTo: 1000).filter { !$0.isEmpty && !ForgottenUser.isName($0) }
        (signIns, foreign) = (users.count, users.count(where: { !AppleUserID.isLike($0.utf8) }))
    }

    /// A test or two among many sign-ins are no trouble. Nil if there are none.
    var finding: Finding? {
        guard foreign > 0 else { return nil }
        let share = "\(foreign.grouped) of the newest \(signIns.counted("sign-in")) (\(max(foreign * 100 / signIns, 1)) %)"
        let sentence = "\(share) have a user_id that does not look like Apple's (\(AppleUserID.example)): no withdrawal meets them"
        let remedy = "let the backend tell the sub of the id_token; siwatch forget ID erases a wrong one"
        return Finding(foreign < 5 || foreign * 10 < signIns ? .note : .degraded, sentence, remedy: remedy)
    }
}
