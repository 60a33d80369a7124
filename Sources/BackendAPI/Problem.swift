// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Hummingbird
import NIOCore
import NIOFoundationCompat

/// Why a request is not answered as asked: RFC 9457, `application/problem+json`.
struct Problem: Error, Equatable {
    var kind: Kind
    /// For people, about this request. It quotes no value of a request, but has Apple's words on a rejected code, which may name a client.
    var detail: String?
    /// Of a rejected sign-in: why, as docs/schema.md names it, and its row.
    var reason: String?
    var id: RowReference?
    var next: RowReference?
    /// Why the database could not answer. Not for the client: it may name hosts and files.
    var cause: String?

    init(_ kind: Kind, _ detail: String? = nil, reason: String? = nil, id: RowReference? = nil, next: RowReference? = nil) {
        self.kind = kind
        self.detail = detail
        self.reason = reason
        self.id = id
        self.next = next
    }

    static func unavailable(because error: any Error) -> Problem {
        var problem = Problem(.unavailable)
        // A request that is cancelled says nothing of the database.
        if !(error is CancellationError) { problem.cause = "\(error)" }
        return problem
    }

    static func reading<Value>(_ read: () async throws -> Value) async throws(Problem) -> Value {
        do {
            return try await read()
        } catch {
            throw .unavailable(because: error)
        }
    }

    /// For a client that the configuration does not name.
    static let unknownClient = Problem(.unknownClient, "client_id stands in the client_ids of no [[app]]")

    static let unknownID = Problem(.notFound, "the id in the path is none of an answer")

    /// `type` and status. The raw value never changes.
    enum Kind: String, CaseIterable {
        case badRequest = "bad-request"
        case unknownClient = "unknown-client"
        case appStoreNotification = "app-store-notification"
        case unauthorized
        case forged
        case forbidden
        case notFound = "not-found"
        case noSuchPath = "no-such-path"
        case methodNotAllowed = "method-not-allowed"
        case changesGone = "changes-gone"
        case tooLarge = "too-large"
        case unsupportedMediaType = "unsupported-media-type"
        case signInRejected = "sign-in-rejected"
        case keyUsed = "key-used"
        case tooManyRequests = "too-many-requests"
        case unavailable

        var status: HTTPResponse.Status { statusAndTitle.0 }
        var title: String { statusAndTitle.1 }

        private var statusAndTitle: (HTTPResponse.Status, String) {
            switch self {
            case .badRequest: (.badRequest, "The request is wrong")
            case .unknownClient: (.badRequest, "No configured app has this client")
            case .appStoreNotification: (.badRequest, "This is a notification of the App Store, at the wrong URL")
            case .unauthorized: (.unauthorized, "No token that siwatch knows")
            case .forged: (.unauthorized, "Apple did not sign this")
            case .forbidden: (.forbidden, "The token may not do this")
            case .notFound: (.notFound, "siwatch knows none")
            case .noSuchPath: (.notFound, "There is no such path")
            case .methodNotAllowed: (.methodNotAllowed, "Another method is needed")
            case .changesGone: (.gone, "Changes are missing: begin anew")
            case .tooLarge: (.contentTooLarge, "The body is too long")
            case .unsupportedMediaType: (.unsupportedMediaType, "The body is not application/json")
            case .signInRejected: (.unprocessableContent, "The sign-in was rejected")
            case .keyUsed: (.unprocessableContent, "The key was used for another request")
            case .tooManyRequests: (.tooManyRequests, "Too many requests")
            case .unavailable: (.serviceUnavailable, "The database cannot take it now")
            }
        }
    }

    /// Nil if the client may have asked as it should.
    var refusal: String? {
        switch kind {
        case .forged, .notFound, .changesGone, .unavailable: nil
        // Apple's words may be in the detail.
        case .signInRejected: "\(kind.rawValue): \(reason ?? "")"
        case .badRequest, .unknownClient, .appStoreNotification, .unauthorized, .forbidden, .noSuchPath, .methodNotAllowed, .tooLarge,
            .unsupportedMediaType, .keyUsed, .tooManyRequests:
            "\(kind.rawValue): \(detail ?? kind.title)"
        }
    }

    private struct Document: Encodable {
        var type, title: String
        var status: Int
        var detail, reason: String?
        var id, next: RowReference?
    }

    var response: Response {
        let document = Document(
            type: "urn:siwatch:problem:\(kind.rawValue)",
            title: kind.title,
            status: kind.status.code,
            detail: detail,
            reason: reason,
            id: id,
            next: next
        )
        var response = Response.json(document, kind.status, type: "application/problem+json")
        switch kind {
        case .unauthorized, .forged: response.headers[.wwwAuthenticate] = "Bearer"
        case .tooManyRequests, .unavailable: response.headers[.retryAfter] = "1"
        default: break
        }
        return response
    }
}

extension Response {
    static func json(_ value: some Encodable, _ status: HTTPResponse.Status = .ok, type: String = "application/json") -> Response {
        // The types here always encode.
        let bytes = (try? JSONEncoder.door.encodeAsByteBuffer(value, allocator: ByteBufferAllocator())) ?? ByteBuffer()
        return Response(
            status: status,
            headers: [.contentType: type, .cacheControl: "no-store", .xContentTypeOptions: "nosniff"],
            body: ResponseBody(byteBuffer: bytes)
        )
    }
}

extension JSONEncoder {
    static var door: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return encoder
    }
}
