// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Foundation

/// 32 random bytes as a text, for a file or for the terminal.
struct NewSecret {
    let text: String

    /// For an `[[http.client]]`.
    static var httpToken: NewSecret { NewSecret(isURLSafe: true) }
    /// For a `[[delivery]]`, as Standard Webhooks writes it.
    static var webhookSecret: NewSecret { NewSecret(prefix: "whsec_", isURLSafe: false) }

    private init(prefix: String = "", isURLSafe: Bool) {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let base64 = Data(bytes).base64EncodedString()
        text = prefix + (isURLSafe ? base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "") : base64)
    }

    /// Prints it, or writes it to a new file that only this user can read.
    func hand(out file: String?) throws {
        guard let file else { return try printOutput(text) }
        do { try KeyFile.create("\(text)\n", at: file) } catch { throw CommandFailure.failed("\(error)".printable) }
    }
}
