// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import NIOCore

/// The simulator's own routes, for other processes: each is a ``ControlMessage``, and openapi.json describes them.
///
/// Bodies and answers are JSON. Times are milliseconds since 1970 by Apple's clock. Every answer except a 200 is `{"error": "<a sentence>"}`:
/// 400 for a malformed body, 404 for an unknown object, 409 for an impossible operation.
struct ControlRoutes: Sendable {
    let simulator: AppleSimulator

    static let messages: [any ControlMessage.Type] = [
        SignUp.self, SignInAgain.self, ChangePasswords.self, ListUsers.self, ReadUser.self,
        EventMessage<RevokeConsent>.self, EventMessage<DeleteAccounts>.self, EventMessage<SwitchForwarding>.self,
        EventMessage<FalseEvent>.self, ListNotifications.self, Redeliver.self,
        RotateKeys.self, RegisterKey.self, RevokeKey.self, ReadClock.self, SetClock.self, PrepareAnswers.self,
        ReadCounters.self, ResetCounters.self,
        Fault.self, ListFaults.self, ClearFaults.self, ClearFault.self,
    ]

    /// The largest body of a request, in bytes: room for a million user ids.
    private static let largestBody = 64 * 1024 * 1024

    func add(to router: Router<SimulatorContext>) {
        let group = router.group("simulator")
        for message in Self.messages { add(message, to: group) }
        group.get("openapi.json") { _, _ in json(.ok, PackageResources.openapi_json) }
    }

    private func add<Message: ControlMessage>(_: Message.Type, to group: RouterGroup<SimulatorContext>) {
        guard let method = HTTPRequest.Method(rawValue: Message.method) else {
            preconditionFailure("\(Message.route) begins with no method")
        }
        group.on(RouterPath(Message.path), method: method) { request, context in
            let body = try await request.body.collect(upTo: Self.largestBody)
            do {
                let message = try Message.read(Data(body.readableBytesView), id: context.parameters.get("id"))
                return json(.ok, line(try await message.happen(in: simulator)))
            } catch let error as SimulatorError {
                return json(error.status, line(Refusal(error: error.description)))
            } catch ControlError.malformed(let sentence) {
                return json(.badRequest, line(Refusal(error: sentence)))
            }
        }
    }

    private struct Refusal: Encodable { let error: String }
    private func line(_ value: some Encodable) -> Data { JSONText.encode(value) + Data("\n".utf8) }

    private func json(_ status: HTTPResponse.Status, _ text: some Sequence<UInt8>) -> Response {
        Response(status: status, headers: [.contentType: "application/json"], body: ResponseBody(byteBuffer: ByteBuffer(bytes: text)))
    }
}

extension SimulatorError {
    fileprivate var status: HTTPResponse.Status {
        switch self {
        case .unknownUser, .unknownClient, .unknownNotification, .unknownKey, .unknownFault: .notFound
        case .accountDeleted, .notAuthorized, .noRelayAddress, .tooFewUsers: .conflict
        }
    }
}
