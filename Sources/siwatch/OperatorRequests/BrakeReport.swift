// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// An app's brake on revocations, for people and programs.
struct BrakeReport: Encodable {
    var app: String
    /// Since when the brake is set; nil if it is not.
    var setAt: Timestamp?
    var held: Int

    init(_ status: AppStatus) {
        app = status.app
        setAt = status.revocationsBrakedAt
        held = status.revocationsHeld
    }

    var text: String {
        let name = app.printable
        guard let setAt else { return "\(name): the brake on revocations is not set" }
        let requests = held == 1 ? "1 request" : "\(held) requests"
        let argument = app.shellQuoted.printable
        return "\(name): the brake on revocations is set since \(setAt.text) and holds \(requests); "
            + "siwatch revocations confirm \(argument) \(held) carries out so many, siwatch revocations drop \(argument) rejects all"
    }
}
