// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// An app that siwatch watches, as its lanes need it.
package struct AppAtWork: Sendable {
    package var name: String
    package var clientIDs: Set<String>
    /// Apple, asked with the app's key.
    package var endpoint: any TokenEndpoint
    /// The permits of checks and revocations.
    package var budget: RequestBudget
    /// The permits of codes: of their own, so that no backlog of checks delays a sign-in.
    package var codeBudget: RequestBudget
    /// Users of the app whose tokens are asked about first.
    package var canaries: Set<String>
    /// Whether siwatch may end consents at Apple.
    package var mayRevoke: Bool

    package init(
        name: String,
        clientIDs: Set<String>,
        endpoint: any TokenEndpoint,
        budget: RequestBudget,
        codeBudget: RequestBudget,
        canaries: Set<String> = [],
        mayRevoke: Bool = true
    ) {
        self.name = name
        self.clientIDs = clientIDs
        self.endpoint = endpoint
        self.budget = budget
        self.codeBudget = codeBudget
        self.canaries = canaries
        self.mayRevoke = mayRevoke
    }
}
