// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP

/// The keys of one answer from Apple's keys endpoint.
package struct SigningKeySet: Sendable {
    /// The usable keys. Keys of another kind, for another use or of a length out of range are skipped.
    let keys: [SigningKey]

    /// Apple publishes about three.
    static let mostKeys = 32

    /// How many of the published keys are usable; never 0.
    package var count: Int { keys.count }

    /// Fetches the keys.
    ///
    /// - Throws: `TransportFailure`, or `UnusableKeySet`.
    package init(from url: String, over transport: any AppleTransport) async throws {
        let response = try await transport.send(AppleRequest(endpoint: .keys, url: url))
        guard response.status == 200 else { throw UnusableKeySet("status \(response.status)") }
        guard let body = response.body else { throw UnusableKeySet("larger than 64 KiB") }
        try self.init(body)
    }

    /// - Throws: a sentence. Two keys of one name make the whole set ambiguous, and a set needs a usable key.
    init(_ body: [UInt8]) throws(UnusableKeySet) {
        guard let published = (try? JSON(body))?.object?["keys"]?.array else { throw UnusableKeySet("not a JSON Web Key Set") }
        guard published.count <= Self.mostKeys else { throw UnusableKeySet("more than \(Self.mostKeys) keys") }
        let names = published.compactMap { $0.object?["kid"]?.string }
        guard Set(names).count == names.count else { throw UnusableKeySet("two keys with one kid") }
        keys = published.compactMap(SigningKey.init)
        guard !keys.isEmpty else { throw UnusableKeySet("no usable key") }
    }
}

package struct UnusableKeySet: Error, Equatable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
