// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What backends tell siwatch and ask of it. Over HTTP a door does this for them; over SQL they do it themselves, with the same rows.
package protocol BackendDesk: Sendable {
    /// Appends rows to the queues, in one transaction and in their order.
    ///
    /// - Returns: for each request, the row that holds it.
    /// - Throws: `StoreError`. Then nothing is kept, unless it is `outcomeUnknown`.
    func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest]

    /// Those of the sign-ins that are settled: one query, however many wait.
    func settledSignIns(among ids: Set<Int64>) async throws -> [Int64]

    /// The outcomes of sign-ins, by the ids of their rows. Unknown ids are left out.
    func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome]

    /// Nil if no row has the id, or if its receipt is past its retention.
    func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome?

    /// Nil if siwatch knows nothing of the user.
    func userState(of userID: String, in app: String) async throws -> UserState?

    /// The changes after one of them, oldest first.
    ///
    /// - Parameter app: only changes of this app; nil for all.
    func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage
}
