// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

/// A credential belongs to the import that alone has told of it.
struct SettlementFoldImportTests {
    private static let start = Timestamp(seconds: 1_700_000_000)
    private static let now = start.advanced(by: .hours(1))
    private static let apps = ["app": "example", "web": "example"]
    private static let user = AppUserID(app: "example", userID: "ann")

    private static func signIn(_ client: String = "app", by importID: Int64?, token: UInt8? = nil, at seconds: Int = 0) -> Settlement {
        let (time, credential) = (start.advanced(by: .seconds(seconds)), CredentialID(clientID: client, userID: "ann"))
        let content = ClaimedGrant.Content(credential: credential, refreshToken: nil, address: nil)
        let work = ClaimedGrant(id: 1, claim: .mine, grantedAt: time, importID: importID, content: content)
        return .grant(work, .accepted(Grant(grantedAt: time, token: token.map { RefreshToken(at: time, fingerprint: $0) }), credential))
    }

    private static func event(_ kind: Event.Kind, at seconds: Int = 0) -> Settlement {
        .event(kind, at: start.advanced(by: .seconds(seconds)))
    }

    private static func imports(after facts: [Settlement]) -> [String: Int64] {
        var stored: AppUser?
        var credentials: [(clientID: String, record: CredentialRecord)] = []
        for fact in facts {
            let rules = SettlementRules(policy: RefreshPolicy(), pollInterval: .seconds(1), startedAt: start)
            let scope = SettlementScope(of: [fact], apps: apps, under: rules)
            var basis = SettlementBasis()
            basis.users[user] = UserRecord(user, stored: stored, credentials: credentials)
            for (id, claim) in scope.grants { basis.heldGrants[id] = claim }
            for (id, claim) in scope.notifications { basis.heldNotifications[id] = claim }
            guard let settled = SettlementFold.fold([fact], over: basis, apps: apps, under: rules, at: now).users.first else { continue }
            (stored, credentials) = (settled.registers, settled.holdings.map { ($0.clientID, $0.record) })
        }
        return credentials.reduce(into: [:]) { $0[$1.clientID] = $1.record.importedBy }
    }

    private static func orders(of facts: [Settlement]) -> [[Settlement]] {
        guard !facts.isEmpty else { return [[]] }
        return facts.indices.flatMap { first in
            var others = facts
            others.remove(at: first)
            return orders(of: others).map { [facts[first]] + $0 }
        }
    }

    private static let cases: [([Settlement], [String: Int64])] = [
        // Two lines of a user, the second without a token; then a token that is told again, and another client of the user.
        ([signIn(by: 1, token: 1), signIn(by: 1, at: 9), signIn(by: 1, token: 1, at: 5), signIn("web", by: 1)], ["app": 1, "web": 1]),
        ([signIn(by: 1, token: 1), signIn(by: nil, token: 1)], [:]),
        // Of the two, the later one is `retold`.
        ([signIn(by: 1, token: 1), signIn(by: nil, token: 1, at: 9), signIn("web", by: 1)], ["web": 1]),
        ([signIn(by: 1, token: 1), signIn(by: 2, token: 2, at: 9)], [:]),
        ([signIn("app", by: nil), signIn("web", by: 2)], ["web": 2]),
        ([signIn(by: 1), event(.consentRevoked, at: 9), signIn("web", by: 1)], [:]),
        ([signIn(by: 1, at: 9), event(.accountDeleted), signIn("web", by: 2)], [:]),
        ([signIn(by: 1), event(.emailDisabled(nil)), signIn("web", by: 1)], [:]),
        ([signIn(by: 1), event(.unknown)], ["app": 1]),
    ]

    /// In any order of arrival.
    @Test(arguments: SettlementFoldImportTests.cases) func anyOtherFactEndsIt(_ facts: [Settlement], _ expected: [String: Int64]) {
        for order in Self.orders(of: facts) { #expect(Self.imports(after: order) == expected) }
    }

    @Test func aUserOfWhomSomethingElseTellsIsPartOfNoImport() {
        var user = UserRecord(Self.user, stored: nil, credentials: [("app", CredentialRecord(importedBy: 1)), ("web", CredentialRecord())])
        #expect(user.part(of: 1).holdings.map(\.clientID) == ["app"])
        user.keep()
        #expect(user.part(of: 1).holdings.isEmpty)
    }
}
