// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// `siwatch import --from`: a user of Apple's and one of another provider's, as each platform exports them.
struct ImportSourceTests {
    private static let options = "--client-id com.example.web --yes --no-trial --no-wait"
    private static let exports = [
        "supabase": """
        id,user_id,provider_id,provider,identity_data,last_sign_in_at,created_at,email
        7c1d,9e2f,SUB,apple,"{""sub"": ""SUB""}",2023-11-14 22:13:20.123456+00,2022-01-01 00:00:00+00,a@example.com
        7c1e,9e30,1042,google,{},2023-11-14 22:13:20.123456+00,2022-01-01 00:00:00+00,b@example.com
        """,
        "firebase": """
        {"users": [
          {"localId": "x1", "email": "a@example.com", "lastSignedInAt": "1700000000123", "createdAt": "1600000000000",
           "providerUserInfo": [{"providerId": "apple.com", "rawId": "SUB", "email": "a@example.com"}]},
          {"localId": "x2", "createdAt": "1600000000000", "providerUserInfo": [{"providerId": "google.com", "rawId": "1042"}]},
          {"localId": "x3", "createdAt": "1600000000000", "providerUserInfo": []}
        ]}
        """,
        "authjs": """
        id,userId,type,provider,providerAccountId,refresh_token,access_token,expires_at,createdAt
        c1,u1,oidc,apple,SUB,r.kept,a.1,1700003600,2023-11-14T22:13:20.123Z
        c2,u2,oauth,github,1042,,a.2,,2023-11-14T22:13:20.123Z
        """,
        "auth0": """
        {"user_id":"apple|SUB","email":"a@b.c","last_login":"2023-11-14T22:13:20.123Z","identities":[{"provider":"apple","user_id":"SUB"}]}
        {"user_id":"auth0|1042","email":"b@example.com","identities":[{"provider":"auth0","user_id":"1042"}]}
        """,
        "clerk": """
        [{"id": "user_1", "last_sign_in_at": 1700000000123, "created_at": 1600000000000, "external_accounts": [
            {"provider": "oauth_apple", "provider_user_id": "SUB", "email_address": "a@example.com", "created_at": 1600000000000},
            {"provider": "oauth_google", "provider_user_id": "1042", "email_address": "a@example.com"}]},
         {"id": "user_2", "last_sign_in_at": null, "external_accounts": []}]
        """,
        "cognito": #"""
        {"Users": [
          {"Username": "signinwithapple_SUB", "UserCreateDate": "2022-01-01T00:00:00.123000+00:00", "Attributes": [
            {"Name": "identities", "Value": "[{\"userId\":\"SUB\",\"providerType\":\"SignInWithApple\",\"dateCreated\":1700000000123}]"},
            {"Name": "email", "Value": "a@example.com"}]},
          {"Username": "own", "UserCreateDate": "2022-01-01T00:00:00.123000+00:00", "Attributes": []}]}
        """#,
        "devise": """
        id,email,provider,uid,current_sign_in_at,created_at
        1,a@example.com,apple,SUB,2023-11-14 22:13:20.123456,2022-01-01 00:00:00
        2,b@example.com,,,2023-11-14 22:13:20.123456,2022-01-01 00:00:00
        """,
    ]

    private func write(_ text: String, in site: Site) throws -> String {
        try site.folder.write(text, to: "export")
        return site.folder.path("export")
    }

    @Test func eachPlatformHasAnExportHere() { #expect(Set(Self.exports.keys) == Set(ImportSource.all.map(\.name))) }

    @Test(.site) func appleUsersOfEachExportAreToldAndTheOthersAreLeftOut() async throws {
        for (number, source) in ImportSource.all.enumerated() {
            let text = try #require(Self.exports[source.name]).replacing("SUB", with: stranger(number))
            let command = try "import --from \(source.name) \(write(text, in: site)) \(Self.options)"
            let others = source.name == "cognito" ? "1 good lines and 0 bad ones." : "\n1 of other providers are left out.\n"
            try await site.folder.expect(command, 0, others, "1 sign-ins told.", not: "r.kept")
            let row = "user_id = '\(stranger(number))' AND client_id = 'com.example.web' AND granted_at = 1700000000123"
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue WHERE \(row)") == 1, "\(source.name)")
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == ImportSource.all.count)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue WHERE refresh_token = 'r.kept'") == 1)
    }

    @Test(.site) func anotherFileIsRefusedWithTheNameOfTheRightOne() async throws {
        let lines = try #require(Self.exports["supabase"])
        let users = try #require(Self.exports["firebase"])
        for (source, text, words) in [
            ("firebase", lines, "is no JSON; --from firebase reads the file of firebase auth:export --format=json"),
            ("supabase", users, "names no column provider_id"),
            ("supabase", users, "--from supabase reads the CSV of the table auth.identities"),
            ("authjs", lines, "names no column provideraccountid"), ("devise", lines, "names no column uid"),
            ("cognito", users, "has no user with identities; --from cognito reads the JSON of aws cognito-idp list-users"),
            ("auth0", "{\"user_id\": \"apple|1\"}\n", "has no user with identities; --from auth0 reads"),
            ("clerk", "[{\"external_accounts\": [", "the file ends in the middle"),
        ] {
            try await site.folder.expect("import --from \(source) \(write(text, in: site)) \(Self.options)", 64, words)
        }
        let path = try write(users, in: site)
        try await site.folder.expect("import --from firebase \(path) --yes", 64, "--from firebase goes with --client-id")
        try await site.folder.expect("import --from okta \(path) \(Self.options)", 64, "'okta'", "firebase")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    /// A user of Apple's whose id the platform does not have is a bad one, named by its place among the identities.
    @Test(.site) func anIdentityWithoutItsIDIsABadOne() async throws {
        let text =
            "[{\"last_sign_in_at\": 1700000000123, \"external_accounts\": [{\"provider\": \"oauth_apple\", \"provider_user_id\": \"\"}]}]"
        let path = try write(text, in: site)
        try await site.folder.expect("import --from clerk \(path) \(Self.options)", 64, "\nsiwatch: identity 1: user_id is empty\n")
    }
}
