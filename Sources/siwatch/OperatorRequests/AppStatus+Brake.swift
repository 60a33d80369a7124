// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension AppStatus {
    /// The brake on revocations, for people.
    var brake: String {
        let name = app.printable
        guard let revocationsBrakedAt else { return "\(name): the brake on revocations is not set" }
        let requests = "\(revocationsBrakedAt.text) and holds \(revocationsHeld.counted("request"))"
        let argument = app.shellQuoted.printable
        return "\(name): the brake on revocations is set since \(requests); "
            + "siwatch revocations confirm \(argument) \(revocationsHeld) carries out so many, siwatch revocations drop \(argument) rejects all"
    }
}
