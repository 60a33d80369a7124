// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Names a forgotten user for the tables.
package protocol UserPseudonymizer: Sendable {
    /// A keyed hash of the `sub`, the same for the life of the database. Without the key it names nobody.
    func pseudonym(of userID: String) -> String
}

/// What siwatch remembers of a forgotten user in one app.
package struct ForgottenUser: Sendable, Equatable {
    package var pseudonym: String
    /// The newest fact that siwatch knew of the user. It takes no fact up to this time.
    package var until: Timestamp

    /// Every pseudonym begins so, and no `sub` of Apple's does.
    package static let prefix = "forgotten:"

    package static func isName(_ userID: String) -> Bool { userID.hasPrefix(prefix) }

    package init(pseudonym: String, until: Timestamp) {
        self.pseudonym = pseudonym
        self.until = until
    }
}
