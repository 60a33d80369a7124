// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A canary without a token that Apple could be asked about.
struct UnknownCanary: Encodable, CustomStringConvertible {
    var app: String
    var userID: String

    var description: String { "the canary \(userID.printable) of \(app.printable) has no token that Apple could be asked about" }
}

extension CredentialReader {
    func unknownCanaries(of configuration: Configuration) async throws -> [UnknownCanary] {
        var unknown: [UnknownCanary] = []
        for app in configuration.apps {
            unknown += try await unknownCanaries(app.canaries, of: app.name).map { UnknownCanary(app: app.name, userID: $0) }
        }
        return unknown
    }
}
