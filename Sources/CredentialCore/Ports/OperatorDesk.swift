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

    /// Appends a notification to its queue, as a backend does.
    ///
    /// - Throws: `StoreError.refused` for a body that is empty or longer than `Queue.longestNotification`.
    func enqueue(notification body: [UInt8]) async throws -> Int64
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
