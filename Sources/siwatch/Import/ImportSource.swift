// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

/// A platform whose export siwatch reads, and where the values of a sign-in stand in it. The guides name the pages that say so.
struct ImportSource: Sendable {
    let name: String
    /// What the file is, as the end of a sentence.
    let file: String
    /// Of JSON: the member that is the array of users, nil for an array alone or a user in each line; and the list of a user's identities.
    /// Nil for CSV with an identity in each line.
    var users: (list: String?, identities: String)?
    /// The names of values that are not siwatch's own, the best first: columns in small letters, or members of the identity or the user.
    let names: [ImportColumns.Role: [String]]

    /// What siwatch expected of a file that is another.
    var expectation: String { "--from \(name) reads \(file)" }

    static let all = [
        ImportSource(
            name: "supabase",
            file: "the CSV of the table auth.identities",
            names: [.userID: ["provider_id"], .grantedAt: ["last_sign_in_at", "created_at"]]
        ),
        ImportSource(
            name: "firebase",
            file: "the file of firebase auth:export --format=json",
            users: (list: "users", identities: "providerUserInfo"),
            names: [.userID: ["rawId"], .provider: ["providerId"], .grantedAt: ["lastSignedInAt", "createdAt"]]
        ),
        ImportSource(
            name: "authjs",
            file: "the CSV of the adapter's table of accounts",
            names: [.userID: ["provideraccountid", "provider_account_id"], .grantedAt: ["createdat", "created_at"]]
        ),
        ImportSource(
            name: "auth0",
            file: "the JSON of a users-exports job with the fields identities, last_login and email",
            users: (list: nil, identities: "identities"),
            names: [.grantedAt: ["last_login", "created_at"]]
        ),
        ImportSource(
            name: "clerk",
            file: "the JSON of the users of Clerk's Backend API",
            users: (list: "data", identities: "external_accounts"),
            names: [.userID: ["provider_user_id"], .grantedAt: ["last_sign_in_at", "created_at"], .email: ["email_address"]]
        ),
        ImportSource(
            name: "cognito",
            file: "the JSON of aws cognito-idp list-users",
            users: (list: "Users", identities: "identities"),
            names: [.userID: ["userId"], .provider: ["providerType"], .grantedAt: ["dateCreated", "UserCreateDate"]]
        ),
        ImportSource(
            name: "devise",
            file: "the CSV of the table with OmniAuth's columns provider and uid",
            names: [.userID: ["uid"], .grantedAt: ["current_sign_in_at", "last_sign_in_at", "created_at"]]
        ),
    ]
}

extension ImportSource: ExpressibleByArgument {
    init?(argument: String) {
        guard let source = Self.all.first(where: { $0.name == argument }) else { return nil }
        self = source
    }

    static var allValueStrings: [String] { all.map(\.name) }
}
