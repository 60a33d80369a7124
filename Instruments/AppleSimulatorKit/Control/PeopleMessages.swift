// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The people of an operation: `user_ids`, or `any` with a number.
extension People: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case userIDs = "user_ids"
        case any
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        if let count = try container.decodeIfPresent(in: 0...Int.max, forKey: .any) {
            self = .any(count)
        } else {
            self = .these(try container.decode([String].self, forKey: .userIDs))
        }
    }
}

extension SignInOptions: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case clientID = "client_id"
        case credential
        case redirectURI = "redirect_uri"
        case nonce
        case at = "granted_at"
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            clientID: try container.decodeIfPresent(String.self, forKey: .clientID),
            credential: try container.decodeIfPresent(Credential.self, forKey: .credential) ?? .refreshToken,
            redirectURI: try container.decodeIfPresent(String.self, forKey: .redirectURI),
            nonce: try container.decodeIfPresent(String.self, forKey: .nonce),
            at: try container.decodeIfPresent(Moment.self, forKey: .at)
        )
    }
}

/// `POST /simulator/users`
struct CreateUsersMessage: ControlMessage {
    static let members = CodingKeys.names + SignInOptions.CodingKeys.names

    let count: Int
    let address: AddressKind
    let options: SignInOptions

    enum CodingKeys: String, CodingKey, CaseIterable {
        case count, address
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        count = try container.decodeIfPresent(in: 0...10_000_000, forKey: .count) ?? 1
        address = try container.decodeIfPresent(AddressKind.self, forKey: .address) ?? .relay
        options = try SignInOptions(from: decoder)
    }
}

/// `POST /simulator/sign-ins`
struct SignInMessage: ControlMessage {
    static let members = People.CodingKeys.names + SignInOptions.CodingKeys.names

    let people: People
    let options: SignInOptions

    init(from decoder: any Decoder) throws {
        people = try People(from: decoder)
        options = try SignInOptions(from: decoder)
    }
}

/// `POST /simulator/password-changes`
struct PasswordChangeMessage: ControlMessage {
    static let members = People.CodingKeys.names

    let people: People

    init(from decoder: any Decoder) throws {
        people = try People(from: decoder)
    }
}

/// The answer of a sign-in route.
package struct SignInsMessage: Codable {
    package let signIns: [SignIn]

    enum CodingKeys: String, CodingKey {
        case signIns = "sign_ins"
    }
}

/// The answer of `GET /simulator/users`.
package struct UsersMessage: Codable {
    package let users: [UserTruth]
}
