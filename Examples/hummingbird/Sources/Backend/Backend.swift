// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import SiwatchClient

/// A backend with Hummingbird that asks siwatch over HTTP.
@main
struct Backend: Sendable {
    let url: String
    let token: String
    let siwatch: SiwatchClient
    let clientID: String
    let webhookSecrets: [String]
    let sessions = Sessions()
    let receipts = Receipts()

    static func main() async throws {
        let environment = ProcessInfo.processInfo.environment
        func value(_ name: String) -> String {
            guard let value = environment[name] else { fatalError("\(name) is not set") }
            return value
        }
        let (url, token) = (value("SIWATCH_URL"), value("SIWATCH_TOKEN"))
        let backend = Backend(
            url: url,
            token: token,
            siwatch: try SiwatchClient(url: url, token: token),
            clientID: value("CLIENT_ID"),
            webhookSecrets: value("SIWATCH_WEBHOOK_SECRET").split(separator: " ").map(String.init)
        )
        let port = environment["PORT"].flatMap(Int.init) ?? 8080
        try await Application(router: backend.router, configuration: .init(address: .hostname("127.0.0.1", port: port))).run()
    }

    var router: Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: Away())
        router.post("sign-in", use: signIn)
        router.get("me", use: me)
        router.delete("account", use: deleteAccount)
        router.get("receipts/:ticket", use: receipt)
        router.post("siwatch", use: webhook)
        router.post("apple/notifications", use: notification)
        return router
    }

    private func signIn(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let new = try await request.decode(as: NewSignIn.self, context: context)
        guard new.isPlausible else { throw HTTPError(.badRequest) }
        let told: SiwatchClient.SignIn
        do {
            told = try await siwatch.signIn(clientID: clientID, code: new.code, nonce: new.nonce)
        } catch let error as SignInRejected {
            return try Response(.unauthorized, json: ["reason": error.reason])
        }
        guard let user = told.user, let signedInAt = told.signedInAt else { throw HTTPError(.serviceUnavailable) }
        let key = await sessions.begin(Session(userID: user.userID, signedInAt: signedInAt))
        var response = try Response(.ok, json: ["user_id": user.userID])
        // And secure: true behind TLS.
        response.setCookie(Cookie(name: "session", value: key, path: "/", secure: false, httpOnly: true, sameSite: .lax))
        return response
    }

    /// The session of a request. Ends it if the user has withdrawn consent since the sign-in.
    private func session(of request: Request) async throws -> Session {
        guard let key = request.cookies["session"]?.value, let session = await sessions.find(key) else { throw HTTPError(.unauthorized) }
        do {
            if try await siwatch.endsSession(of: session.userID, signedInAt: session.signedInAt) {
                await sessions.end(key)
                throw HTTPError(.unauthorized)
            }
        } catch let error as SiwatchError where error.isTemporary {
            // siwatch is away: that is no reason to sign anybody out.
        }
        return session
    }

    private func me(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        try Response(.ok, json: ["user_id": await session(of: request).userID])
    }

    private func deleteAccount(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let session = try await session(of: request)
        // Tell siwatch first, then delete your own rows.
        let deletion = try await siwatch.delete(clientID: clientID, userID: session.userID)
        await sessions.endAll(of: session.userID)
        return try Response(.accepted, json: ["receipt": "/receipts/\(await receipts.add(deletion.id))"])
    }

    private func receipt(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        guard let id = await receipts.find(try context.parameters.require("ticket")) else { throw HTTPError(.notFound) }
        let deletion = try await siwatch.deletion(id)
        return try Response(.ok, json: Receipt(outcome: deletion.outcome, tokens: deletion.tokens.map { ["outcome": $0.outcome] }))
    }

    private struct Receipt: Encodable {
        let outcome: String
        let tokens: [[String: String]]
    }

    private func webhook(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let body = try await request.body.collect(upTo: 65_536)
        do {
            let event: Event = try SiwatchClient.verifyWebhook(
                secrets: webhookSecrets,
                header: { name in HTTPField.Name(name).flatMap { request.headers[$0] } },
                body: body.readableBytesView
            )
            if let user = event.data.userID, let before = event.data.endsSessionsBefore { await sessions.end(of: user, before: before) }
            return Response(status: .noContent)
        } catch is WebhookRejected {
            throw HTTPError(.badRequest)
        }
    }

    /// What this backend reads of a webhook. An event `siwatch.test` has no user.
    private struct Event: Decodable {
        struct Content: Decodable {
            let userID: String?
            let endsSessionsBefore: Int64?
        }

        let data: Content
    }

    /// Only if no reverse proxy hands Apple's notifications to siwatch. Apple tries again after any answer but 200.
    private func notification(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        var post = HTTPClientRequest(url: "\(url)/v1/notifications")
        post.method = .POST
        post.headers.add(name: "Authorization", value: "Bearer \(token)")
        post.body = .bytes(try await request.body.collect(upTo: 65_536))
        let answer = try? await HTTPClient.shared.execute(post, timeout: .seconds(10))
        return Response(status: answer.map { .init(code: Int($0.status.code)) } ?? .serviceUnavailable)
    }
}

/// Answers 503 while siwatch is away. A mistake is answered with 500, and the log has it: a backend that swallows it ends no session.
private struct Away: RouterMiddleware {
    func handle(
        _ request: Request,
        context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as SiwatchError {
            context.logger.error("\(error)")
            throw HTTPError(error.isTemporary ? .serviceUnavailable : .internalServerError)
        }
    }
}

private struct NewSignIn: Decodable {
    let code: String
    let nonce: String?

    /// As in siwatch's OpenAPI document.
    var isPlausible: Bool {
        func isText(_ text: String, upTo length: Int) -> Bool {
            (1...length).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
        }
        return isText(code, upTo: 8192) && (nonce.map { isText($0, upTo: 512) } ?? true)
    }
}

extension Response {
    fileprivate init(_ status: HTTPResponse.Status, json: some Encodable) throws {
        let body = try JSONEncoder().encode(json)
        self.init(status: status, headers: [.contentType: "application/json"], body: .init(byteBuffer: ByteBuffer(bytes: body)))
    }
}
