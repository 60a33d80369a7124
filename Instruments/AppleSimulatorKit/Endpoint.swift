// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A simulated endpoint of Apple.
package enum Endpoint: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
    /// `POST /auth/token`
    case token
    /// `GET /auth/keys`
    case keys
    /// `POST /auth/revoke`
    case revoke
}
