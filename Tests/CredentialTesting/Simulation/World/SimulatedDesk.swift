// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Operators' requests for the simulated process. It may die while it carries one out, and the store may fail before or after.
struct SimulatedDesk: OperatorDesk, BreakerReader {
    let desk: any OperatorDesk & BreakerReader
    let world: SimulatedWorld

    func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64 {
        try await desk.submit(request, at: now)
    }

    func answer(to id: Int64) async throws -> OperatorAnswer? {
        try await desk.answer(to: id)
    }

    func withdraw(_ id: Int64) async throws -> Bool {
        try await desk.withdraw(id)
    }

    func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest? {
        try await world.read { try await desk.handleNextRequest(under: rules, at: now) }
    }

    func breakers() async throws -> [String: RejectionBreaker] {
        try await world.read { try await desk.breakers() }
    }

    func apps() async throws -> [AppStatus] {
        try await world.read { try await desk.apps() }
    }

    func enqueue(notification body: [UInt8]) async throws -> Int64 {
        try await desk.enqueue(notification: body)
    }
}
