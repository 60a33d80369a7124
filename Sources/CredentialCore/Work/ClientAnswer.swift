// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What an answer of Apple's says of the client, apart from the token or the code.
///
/// The times are those of the request, by Apple's clock.
package enum ClientAnswer: Sendable, Equatable {
    /// A 200: Apple knows the client and takes its key.
    case accepted(at: Timestamp)
    /// `invalid_client` and its like: the configuration is wrong.
    ///
    /// - Parameter word: Apple's text, without secrets.
    case refused(word: String, at: Timestamp)

    package var requestedAt: Timestamp {
        switch self {
        case .accepted(let time), .refused(_, let time): time
        }
    }
}

/// Apple's refusal of a client, as the store keeps it.
package struct ClientRefusal: Sendable, Equatable, Codable {
    /// When siwatch sent the first request that Apple refused, since Apple last accepted the client.
    package var since: Timestamp
    /// When siwatch sent the last request that Apple refused.
    package var at: Timestamp
    /// Apple's text at `at`, without secrets.
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
