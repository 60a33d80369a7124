// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

/// A platform whose export siwatch reads, and where the values of a sign-in stand in it. The guides name the pages that say so.
struct ImportSource: Sendable {
    enum Shape: Sendable {
        /// CSV, a user's identity in each line.
        case lines
        /// JSON: users one after the other, in an array, or in the array that the member `list` is. Each has a list of identities.
        case users(list: String?, identities: String)
    }

    let name: String
    /// What the file is, as the end of a sentence.
    let file: String
    let shape: Shape
    /// The names of each value, the best first: of columns, in small letters; of JSON's members, of the identity or else of the user.
    let names: [ImportColumns.Role: [String]]

    /// What siwatch expected of a file that is another.
    var expectation: String { "--from \(name) reads \(file)" }

    static let all = [
        ImportSource(
            name: "supabase",
            file: "the CSV of the table auth.identities",
            shape: .lines,
            names: [.userID: ["provider_id"], .provider: ["provider"], .grantedAt: ["last_sign_in_at", "created_at"], .email: ["email"]]
        ),
        ImportSource(
            name: "firebase",
            file: "the file of firebase auth:export --format=json",
            shape: .users(list: "users", identities: "providerUserInfo"),
            names: [.userID: ["rawId"], .provider: ["providerId"], .grantedAt: ["lastSignedInAt", "createdAt"], .email: ["email"]]
        ),
        ImportSource(
            name: "authjs",
            file: "the CSV of the adapter's table of accounts",
            shape: .lines,
            names: [
                .userID: ["provideraccountid", "provider_account_id"], .provider: ["provider"], .refreshToken: ["refresh_token"],
                .grantedAt: ["createdat", "created_at"],
            ]
        ),
        ImportSource(
            name: "auth0",
            file: "the JSON of a users-exports job with the fields identities, last_login and email",
            shape: .users(list: nil, identities: "identities"),
            names: [
                .userID: ["user_id"], .provider: ["provider"], .refreshToken: ["refresh_token"],
                .grantedAt: ["last_login", "created_at"], .email: ["email"],
            ]
        ),
        ImportSource(
            name: "clerk",
            file: "the JSON of the users of Clerk's Backend API",
            shape: .users(list: "data", identities: "external_accounts"),
            names: [
                .userID: ["provider_user_id"], .provider: ["provider"], .grantedAt: ["last_sign_in_at", "created_at"],
                .email: ["email_address"],
            ]
        ),
        ImportSource(
            name: "cognito",
            file: "the JSON of aws cognito-idp list-users",
            shape: .users(list: "Users", identities: "identities"),
            names: [
                .userID: ["userId"], .provider: ["providerType", "providerName"], .grantedAt: ["dateCreated", "UserCreateDate"],
                .email: ["email"],
            ]
        ),
        ImportSource(
            name: "devise",
            file: "the CSV of the table with OmniAuth's columns provider and uid",
            shape: .lines,
            names: [
                .userID: ["uid"], .provider: ["provider"], .refreshToken: ["refresh_token"],
                .grantedAt: ["current_sign_in_at", "last_sign_in_at", "created_at"], .email: ["email"],
            ]
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
