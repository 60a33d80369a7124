// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The place for operators' requests and their answers.
package protocol OperatorDesk: Sendable {
    /// Leaves a request for the daemon that holds the lock on the database.
    func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64

    /// The answer to a request; nil while there is none.
    func answer(to id: Int64) async throws -> OperatorAnswer?

    /// Takes back a request that has no answer yet.
    ///
    /// - Returns: false if the request has an answer.
    func withdraw(_ id: Int64) async throws -> Bool

    /// Carries out one request and answers it, or continues a long one, in one transaction. Only the holder of the lock may call it.
    ///
    /// - Returns: nil if nothing is left to do.
    func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest?

    /// Appends a notification to its queue, as a backend does.
    ///
    /// - Throws: `StoreError.refused` for a body that is empty or longer than `Queue.longestNotification`.
    func enqueue(notification body: [UInt8]) async throws -> Int64
}

/// A request that was carried out, or one more portion of a long one.
package struct HandledRequest: Sendable {
    /// Nil if the request was not understood.
    package var request: OperatorRequest?
    /// Nil for one more portion.
    package var answer: OperatorAnswer?

    package init(request: OperatorRequest?, answer: OperatorAnswer?) {
        self.request = request
        self.answer = answer
    }
}
