// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import NIOCore

extension ControlRoutes {
    /// The largest body of a control request, in bytes: room for a million user ids.
    private static let largestBody = 64 * 1024 * 1024

    /// Reads the message of a request, obeys it and writes the result or the error.
    func answer<Message: ControlMessage, Result: Encodable>(
        _ request: Request,
        _ obey: (Message) async throws -> Result
    ) async throws -> Response {
        let body = try await request.body.collect(upTo: Self.largestBody)
        do {
            return json(.ok, try await obey(Message.read(Data(body.readableBytesView))))
        } catch {
            return try refusal(error)
        }
    }

    /// The same for a request without a message.
    func answer(_ obey: () async throws -> some Encodable) async throws -> Response {
        do {
            return json(.ok, try await obey())
        } catch {
            return try refusal(error)
        }
    }

    private func refusal(_ error: any Error) throws -> Response {
        struct Refusal: Encodable { let error: String }
        return switch error {
        case let error as SimulatorError: json(error.status, Refusal(error: error.description))
        case ControlError.malformed(let sentence): json(.badRequest, Refusal(error: sentence))
        default: throw error
        }
    }

    private func json(_ status: HTTPResponse.Status, _ value: some Encodable) -> Response {
        Response(
            status: status,
            headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: JSONText.encode(value) + Data("\n".utf8)))
        )
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
