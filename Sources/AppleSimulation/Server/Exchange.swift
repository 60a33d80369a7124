// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Hummingbird
import NIOCore
import ServiceLifecycle
import Synchronization

/// One request to one of Apple's endpoints, from its arrival to its outcome, with the fault that meets it.
struct Exchange {
    /// The answer to a form, or to a body that is none.
    typealias Work = (Result<FormBody, TokenError>) async throws -> AppleAnswer

    private let endpoint: Endpoint
    private let simulator: AppleSimulator
    private let request: Request
    private let channel: any Channel

    init(_ endpoint: Endpoint, _ simulator: AppleSimulator, _ request: Request, _ context: SimulatorContext) {
        self.endpoint = endpoint
        self.simulator = simulator
        self.request = request
        self.channel = context.channel
    }

    func run(_ work: Work) async throws -> Response {
        let form = try await form()
        let arrival = simulator.world.withLock {
            $0.begin(endpoint, try? form.get(), hasUserAgent: request.headers[.userAgent] != nil)
        }
        // What is thrown on the way, as by a client that left, ends as a hang.
        var outcome = ExchangeOutcome.hang
        defer { simulator.world.withLock { $0.end(arrival, outcome, now: $0.now) } }
        guard let fault = arrival.fault else {
            let answer = try await work(form)
            outcome = .answered(answer)
            return answer.response
        }
        try await wait(fault.delay)
        if fault.effect != .none, fault.loss == .answer { _ = try await work(form) }
        switch fault.effect {
        case .none:
            let answer = try await work(form)
            outcome = .answered(answer)
            return answer.response
        case .answer(let script):
            outcome = .answered(script)
            return Response(script)
        case .cut(let script):
            outcome = .cut
            return Response(script, cutting: channel)
        case .reset:
            outcome = .reset
            try await channel.reset()
            return Response(status: .internalServerError)
        case .hang:
            try await channel.untilClosed()
            return Response(status: .internalServerError)
        }
    }

    private func form() async throws -> Result<FormBody, TokenError> {
        let body = try await request.body.collect(upTo: 65_536)
        let type = request.headers[.contentType]?.prefix { $0 != ";" }.lowercased()
        guard type == "application/x-www-form-urlencoded" else { return .failure(.invalidClient(.notAForm)) }
        return Result { () throws(TokenError) in try FormBody(body) }
    }

    /// Waits, but not beyond the beginning of a shutdown.
    private func wait(_ duration: Duration) async throws {
        guard duration > .zero else { return }
        try await cancelWhenGracefulShutdown { try await Task.sleep(for: duration) }
    }
}

extension ExchangeOutcome {
    fileprivate static func answered(_ answer: AppleAnswer) -> ExchangeOutcome {
        let status = answer.status.code
        return .answered(status: status, isVerdict: status == 200 || String(buffer: answer.body).contains("invalid_grant"))
    }

    fileprivate static func answered(_ script: ScriptedAnswer) -> ExchangeOutcome {
        .answered(status: script.status, isVerdict: script.status == 200 || script.body.contains("invalid_grant"))
    }
}
