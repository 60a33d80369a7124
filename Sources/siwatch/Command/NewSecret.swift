// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialSealing
import Foundation

/// The kinds of secrets that siwatch makes.
enum NewSecret: String, CaseIterable, ExpressibleByArgument {
    /// For an `[[http.client]]`.
    case token
    /// For a `[[delivery]]`, as Standard Webhooks writes it.
    case webhook
    case sealingKey = "sealing-key"

    /// A new one, as a text for a file or for the terminal.
    func make() -> String {
        switch self {
        case .token: Self.random.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        case .webhook: "whsec_\(Self.random)"
        case .sealingKey: String(KeyRing.generate().text.dropLast())
        }
    }

    /// 32 bytes in base64.
    private static var random: String {
        var generator = SystemRandomNumberGenerator()
        return Data((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }).base64EncodedString()
    }
}
