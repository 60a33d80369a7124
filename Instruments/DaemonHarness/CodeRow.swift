// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit

/// A row of `grant_queue` with a code for siwatch to exchange.
package struct CodeRow: Sendable {
    package var clientID: String
    package var code: String
    /// The user that the app expects, if it names one.
    package var userID: String?
    package var redirectURI: String?
    package var nonce: String?
    /// The sign-in's time; the time of the insert, if absent.
    package var grantedAt: Moment?

    package init(
        clientID: String,
        code: String,
        userID: String? = nil,
        redirectURI: String? = nil,
        nonce: String? = nil,
        grantedAt: Moment? = nil
    ) {
        self.clientID = clientID
        self.code = code
        self.userID = userID
        self.redirectURI = redirectURI
        self.nonce = nonce
        self.grantedAt = grantedAt
    }

    /// The app's knowledge after a sign-in by code, or `nil` for a sign-in without a code.
    package init?(_ signIn: SignIn) {
        guard let code = signIn.code else { return nil }
        self.init(
            clientID: signIn.clientID,
            code: code,
            userID: signIn.userID,
            redirectURI: signIn.redirectURI,
            nonce: signIn.nonce,
            grantedAt: signIn.grantedAt
        )
    }
}
