// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What an answer of Apple's says of the client that was asked for, whatever it says of the token or the code.
///
/// The times are those of the request, by Apple's clock.
package enum ClientAnswer: Sendable, Equatable {
    /// A 200: Apple knows the client and takes its key.
    case accepted(at: Timestamp)
    /// `invalid_client` and its like: the configuration is to blame.
    ///
    /// - Parameter word: what Apple said, without any secret.
    case refused(word: String, at: Timestamp)

    /// By Apple's clock.
    package var requestedAt: Timestamp {
        switch self {
        case .accepted(let time), .refused(_, let time): time
        }
    }
}

/// That Apple refuses a client, as the store keeps it.
package struct ClientRefusal: Sendable, Equatable, Codable {
    /// When Apple was asked the first time that it refused the client, since it last accepted it.
    package var since: Timestamp
    /// The same of the last time.
    package var at: Timestamp
    /// What Apple said then, without any secret.
    package var word: String

    package init(since: Timestamp, at: Timestamp, word: String) {
        self.since = since
        self.at = at
        self.word = word
    }

    private static let errors: Set<String> = ["invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"]

    /// Whether a text begins with one of the errors by which Apple refuses a client.
    package static func isWord(_ text: String) -> Bool {
        text.split(separator: ":").first.map { errors.contains(String($0)) } ?? false
    }
}
