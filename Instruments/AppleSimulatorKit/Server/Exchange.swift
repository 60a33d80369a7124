// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Hummingbird
import NIOCore
import ServiceLifecycle

/// One request to one of Apple's endpoints, from arrival to outcome, with the fault that hits it.
struct Exchange {
    /// Answers a form, or a body that is no form. The style makes the id_token unusual, if a fault says so.
    typealias Work = (Result<FormBody, TokenError>, IDTokenStyle?) async throws -> AppleAnswer

    private let endpoint: Endpoint
    private let simulator: AppleSimulator
    private let request: Request
    private let channel: any Channel
    private let caller: String

    init(_ endpoint: Endpoint, _ simulator: AppleSimulator, _ request: Request, _ context: SimulatorContext) {
        (self.endpoint, self.simulator, self.request) = (endpoint, simulator, request)
        self.channel = context.channel
        self.caller = context.parameters.get("caller") ?? ""
    }

    func run(_ work: Work) async throws -> Response {
        let form = try await form()
        let arrival = simulator.withWorld {
            $0.begin(endpoint, try? form.get(), of: caller, hasUserAgent: request.headers[.userAgent] != nil)
        }
        let resolution: Resolution
        do {
            resolution = try await resolve(arrival.fault, form, work)
            if case .hang = resolution { try await channel.untilClosed() }
        } catch {
            // It could not sign, or the simulator stops.
            end(arrival, ExchangeOutcome(label: "failed"))
            throw error
        }
        // Count before the client can see the end, so that a client finds its request counted.
        end(arrival, resolution.outcome)
        return try await respond(resolution)
    }

    private func end(_ arrival: Arrival, _ outcome: ExchangeOutcome) { simulator.withWorld { $0.end(arrival, outcome, now: $0.now) } }

    fileprivate enum Resolution {
        case answer(AppleAnswer)
        case cut(AppleAnswer)
        case reset
        case hang
    }

    private func resolve(_ fault: Fault?, _ form: Result<FormBody, TokenError>, _ work: Work) async throws -> Resolution {
        guard let fault else { return .answer(try await work(form, nil)) }
        try await wait(.milliseconds(fault.delay ?? 0))
        guard let replacement = fault.replacement else { return .answer(try await work(form, fault.idToken)) }
        if fault.loss == .answer { _ = try await work(form, nil) }
        return replacement
    }

    private func respond(_ resolution: Resolution) async throws -> Response {
        switch resolution {
        case .answer(let answer): return answer.response
        case .cut(let answer): return answer.response(cutting: channel)
        case .reset:
            try await channel.reset()
            return .nobodyReads
        case .hang: return .nobodyReads
        }
    }

    private func form() async throws -> Result<FormBody, TokenError> {
        let body = try await request.body.collect(upTo: 65_536)
        let type = request.headers[.contentType]?.prefix { $0 != ";" }.lowercased()
        guard type == "application/x-www-form-urlencoded" else { return .failure(.invalidClient(.notAForm)) }
        return Result { () throws(TokenError) in try FormBody(body) }
    }

    private func wait(_ duration: Duration) async throws {
        guard duration > .zero else { return }
        try await cancelWhenGracefulShutdown { try await Task.sleep(for: duration) }
    }
}

extension Fault {
    fileprivate var replacement: Exchange.Resolution? {
        switch (connection, answer) {
        case (nil, nil): nil
        case (nil, let answer?): .answer(answer)
        case (.cut, let answer?): .cut(answer)
        case (.hang, _): .hang
        case (.reset, _), (.cut, nil): .reset
        }
    }

    private var answer: AppleAnswer? {
        guard let status else { return nil }
        var fields = HTTPFields()
        for (name, value) in headers ?? [:] {
            if let name = HTTPFields.Element.Name(name) { fields[name] = value }
        }
        var buffer = ByteBuffer(string: body ?? "")
        buffer.writeRepeatingByte(UInt8(ascii: " "), count: padding ?? 0)
        return AppleAnswer(status: HTTPResponse.Status(code: status), headers: fields, body: buffer)
    }
}

extension Exchange.Resolution {
    fileprivate var outcome: ExchangeOutcome {
        switch self {
        case .answer(let answer):
            ExchangeOutcome(
                label: String(answer.status.code),
                isVerdict: answer.status == .ok || String(buffer: answer.body).contains("invalid_grant")
            )
        case .cut: ExchangeOutcome(label: "cut")
        case .reset: ExchangeOutcome(label: "reset")
        case .hang: ExchangeOutcome(label: "hang")
        }
    }
}

extension Response {
    /// Hummingbird requires an answer, although the connection is gone.
    fileprivate static let nobodyReads = Response(status: .internalServerError)
}
