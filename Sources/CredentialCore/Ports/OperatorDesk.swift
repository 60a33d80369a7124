// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package protocol OperatorDesk: Sendable {
    func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64
    func answer(to id: Int64) async throws -> OperatorAnswer?
    /// Takes back a request, unless it has an answer already. Says whether it did.
    func withdraw(_ id: Int64) async throws -> Bool
    /// Carries out one request and answers it, or continues a long one, in one transaction. Only the holder of the lock may call it.
    func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest?
    /// The decisions since the last call that siwatch has not written, and that do not count.
    func takePlanted() -> [PlantedDecisions]
}

/// A request that was carried out, nil if it was not understood, with its answer; nil for one more portion of a long request.
package typealias HandledRequest = (request: OperatorRequest?, answer: OperatorAnswer?)
