// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import NIOCore

/// Apple's own endpoints. A caller that wants a count of its own puts `callers/NAME` before the path.
struct AppleRoutes: Sendable {
    let simulator: AppleSimulator

    func add(to router: Router<SimulatorContext>) {
        add(below: "", to: router)
        add(below: "callers/:caller/", to: router)
    }

    private func add(below path: String, to router: Router<SimulatorContext>) {
        router.post("\(path)auth/token") { request, context in
            try await Exchange(.token, simulator, request, context).run { form, style in try token(form, style) }
        }
        router.get("\(path)auth/keys") { request, context in
            try await Exchange(.keys, simulator, request, context).run { _, _ in keys() }
        }
        router.post("\(path)auth/revoke") { request, context in
            try await Exchange(.revoke, simulator, request, context).run { form, _ in revoke(form) }
        }
    }

    private func token(_ form: Result<FormBody, TokenError>, _ style: IDTokenStyle?) throws -> AppleAnswer {
        do {
            return .token(.ok, try tokens(TokenRequest(form.get()), style))
        } catch let error as TokenError {
            if (try? form.get())?["grant_type"] == "authorization_code" { simulator.withWorld { $0.counters.countRefusedCode(error) } }
            return refusal(error)
        }
    }

    private func tokens(_ request: TokenRequest, _ style: IDTokenStyle?) throws -> ByteBuffer {
        let reply = try simulator.withWorld { try $0.answer(request, style, now: $0.now) }
        switch reply {
        case .ready(let body): return body
        case .draft(let draft):
            let body = try draft.signed()
            simulator.withWorld { $0.keep(body, of: draft) }
            return body
        }
    }

    private func keys() -> AppleAnswer { .keys(ByteBuffer(bytes: simulator.withWorld { $0.signingKeys.document })) }

    /// Answers nearly every request with an empty 200, whether or not it revoked anything. Only a later refresh proves a revocation.
    private func revoke(_ form: Result<FormBody, TokenError>) -> AppleAnswer {
        do {
            let request = try RevocationRequest(form.get())
            simulator.withWorld { $0.revoke(request, now: $0.now) }
            return .empty
        } catch {
            return refusal(error)
        }
    }

    private func refusal(_ error: TokenError) -> AppleAnswer {
        simulator.withWorld { $0.counters.count(error) }
        return .token(.badRequest, ByteBuffer(bytes: error.body))
    }
}

struct AppleAnswer: Sendable {
    let status: HTTPResponse.Status
    let headers: HTTPFields
    let body: ByteBuffer

    /// The charset is from a capture of 2022. Apple's documents promise another, and JSON defines none.
    static func token(_ status: HTTPResponse.Status, _ body: ByteBuffer) -> AppleAnswer {
        AppleAnswer(status: status, headers: [.contentType: "application/json;charset=ISO-8859-1", .cacheControl: "no-store"], body: body)
    }

    static func keys(_ body: ByteBuffer) -> AppleAnswer {
        AppleAnswer(status: .ok, headers: [.contentType: "application/json;charset=UTF-8"], body: body)
    }

    static let empty = AppleAnswer(status: .ok, headers: [.cacheControl: "no-store"], body: ByteBuffer())

    var response: Response { Response(status: status, headers: headers, body: ResponseBody(byteBuffer: body)) }
}

package enum Endpoint: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
    /// `POST /auth/token`
    case token
    /// `GET /auth/keys`
    case keys
    /// `POST /auth/revoke`
    case revoke
}
