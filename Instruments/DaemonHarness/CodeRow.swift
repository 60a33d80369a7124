// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit

/// A row of `grant_queue` with a code that siwatch is to exchange.
package struct CodeRow: Sendable {
    package var clientID: String
    package var code: String
    /// Whom the app believes to have signed in, if it says so.
    package var userID: String?
    package var redirectURI: String?
    package var nonce: String?
    /// When the row is written, if absent.
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

    /// All that the app knows after a sign-in by code, or `nil` where it was one without.
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
