// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Hummingbird
import NIOCore

/// Why a request is not answered as asked: RFC 9457, `application/problem+json`.
struct Problem: Error, Equatable {
    var kind: Kind
    /// For people, about this request. It quotes no value of a request, but has Apple's words on a rejected code, which may name a client.
    var detail: String?
    /// Of a rejected sign-in: why, as docs/schema.md names it, and its row.
    var reason: String?
    var id: RowReference?
    /// Where to begin anew.
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

    /// The database could not answer.
    static func unavailable(because error: any Error) -> Problem {
        var problem = Problem(.unavailable)
        // A request that is cancelled says nothing of the database.
        if !(error is CancellationError) { problem.cause = "\(error)" }
        return problem
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

        var status: HTTPResponse.Status {
            switch self {
            case .badRequest, .unknownClient, .appStoreNotification: .badRequest
            case .unauthorized, .forged: .unauthorized
            case .forbidden: .forbidden
            case .notFound, .noSuchPath: .notFound
            case .methodNotAllowed: .methodNotAllowed
            case .changesGone: .gone
            case .tooLarge: .contentTooLarge
            case .unsupportedMediaType: .unsupportedMediaType
            case .signInRejected, .keyUsed: .unprocessableContent
            case .tooManyRequests: .tooManyRequests
            case .unavailable: .serviceUnavailable
            }
        }

        var title: String {
            switch self {
            case .badRequest: "The request is wrong"
            case .unknownClient: "No configured app has this client"
            case .appStoreNotification: "This is a notification of the App Store, at the wrong URL"
            case .unauthorized: "No token that siwatch knows"
            case .forged: "Apple did not sign this"
            case .forbidden: "The token may not do this"
            case .notFound: "siwatch knows none"
            case .noSuchPath: "There is no such path"
            case .methodNotAllowed: "Another method is needed"
            case .changesGone: "Changes are missing: begin anew"
            case .tooLarge: "The body is too long"
            case .unsupportedMediaType: "The body is not application/json"
            case .signInRejected: "The sign-in was rejected"
            case .keyUsed: "The key was used for another request"
            case .tooManyRequests: "Too many requests"
            case .unavailable: "The database cannot take it now"
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
        var type: String
        var title: String
        var status: Int
        var detail: String?
        var reason: String?
        var id: RowReference?
        var next: RowReference?
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
