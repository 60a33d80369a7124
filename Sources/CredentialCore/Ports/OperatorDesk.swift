// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Where operators' requests are left and answered.
package protocol OperatorDesk: Sendable {
    /// Leaves a request for whoever holds the lock on the database.
    func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64

    /// The answer to a request; nil while there is none.
    func answer(to id: Int64) async throws -> OperatorAnswer?

    /// Takes a request back that has not been answered.
    ///
    /// - Returns: false where it has been.
    func withdraw(_ id: Int64) async throws -> Bool

    /// Carries out one request and answers it, or goes on with one that takes longer, in one transaction. For the holder of the lock.
    ///
    /// - Returns: nil where nothing is left to do.
    func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest?
}

/// A request that was carried out, or a further piece of one.
package struct HandledRequest: Sendable {
    /// Nil where it was not understood.
    package var request: OperatorRequest?
    /// Nil for a further piece.
    package var answer: OperatorAnswer?

    package init(request: OperatorRequest?, answer: OperatorAnswer?) {
        self.request = request
        self.answer = answer
    }
}

/// Why an app keeps its name.
package enum AppRenameError: Error, Sendable, Equatable {
    case unknown(String, known: [String])
    case taken(String)
}
