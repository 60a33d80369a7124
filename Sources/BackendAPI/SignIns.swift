// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Hummingbird

struct SignIns: Sendable {
    let desk: any BackendDesk
    let queue: AppendQueue
    let outcomes: Waiters<Int64, SignInOutcome>
    let clients: Set<String>
    let times: SignInTimes

    static let longestWait: Int64 = 10

    func tell(_ request: Request, by client: String, noting doubt: inout BackendAPI.Doubt?) async throws(Problem) -> Response {
        var body = try await Members(ofBody: request)
        let signIn = body.signIn()
        let wait = body.integer("wait", 0...Self.longestWait) ?? 0
        if let mistake = times.mistake(signIn.signedInAt?.milliseconds) { body.note(mistake) }
        try body.finish()
        if times.isLate(signIn.signedInAt) { doubt = .toldLate }
        guard clients.contains(signIn.clientID) else { throw Problem.unknownClient }
        let key = try request.key(of: client, for: signIn.parts)
        let row = try await queue.append(.signIn(signIn, key: key)).row()
        // The sign-in is kept by now. If its outcome cannot be read, the caller asks again.
        let outcome =
            (try? await outcome(of: row, waiting: wait))
            ?? SignInOutcome(row: row, clientID: signIn.clientID, outcome: SignInOutcome.waiting)
        guard outcome.logged != .rejected, outcome.logged != .inFuture else {
            throw Problem(.signInRejected, outcome.explanation, reason: outcome.reason ?? outcome.outcome, id: row)
        }
        var response = Response.json(SignInDocument(outcome), outcome.isWaiting ? .accepted : .ok)
        response.headers[.location] = "/v1/sign-ins/\(row)"
        return response
    }

    func show(_ row: RowReference, _ request: Request) async throws(Problem) -> Response {
        var query = Members(ofQuery: request)
        let wait = query.integer("wait", 0...Self.longestWait) ?? 0
        try query.finish()
        var found = try await outcome(of: row, waiting: 0)
        // Nobody waits for a row that is not there.
        if wait > 0, found?.isWaiting == true { found = try await outcome(of: row, waiting: wait) }
        guard let found else { throw Problem(.notFound) }
        return .json(SignInDocument(found))
    }

    /// - Returns: nil if the row is erased, or was lost in a restore and another one has its number.
    private func outcome(of row: RowReference, waiting seconds: Int64) async throws(Problem) -> SignInOutcome? {
        var found = await outcomes.news(of: row.id, within: .seconds(seconds))
        if found == nil { found = try await Problem.reading { try await desk.signInOutcomes([row.id])[row.id] } }
        guard var outcome = found, row.names(outcome.row, of: outcome.userID) else { return nil }
        outcome.row = row
        return outcome
    }
}

extension Members {
    fileprivate mutating func signIn() -> ToldSignIn {
        var signIn = ToldSignIn(clientID: requiredText("client_id", .name))
        signIn.userID = text("user_id", .name)
        let code = text("code", .word(upTo: Longest.token))
        let token = text("refresh_token", .word(upTo: Longest.token))
        let nonce = text("nonce", .word(upTo: Longest.identifier))
        let redirectURI = text("redirect_uri", .word(upTo: Longest.uri))
        let (email, isPrivate) = (text("email", .address), flag("is_private_email"))
        signIn.signedInAt = integer("signed_in_at", Timestamp.legalMilliseconds).map(Timestamp.init(milliseconds:))
        if has("code") {
            signIn.proof = code.map { .code(Secret($0), redirectURI: redirectURI, nonce: nonce) }
            for name in ["refresh_token", "email", "is_private_email", "signed_in_at"] where has(name) {
                note("\(name) stands beside code, with which Apple itself names the user")
            }
        } else {
            signIn.proof = token.map { .refreshToken(Secret($0)) }
            signIn.address = email.map { EmailAddress($0, isPrivate: isPrivate) }
            if !has("user_id") { note("user_id is missing, and only a code does without") }
            if has("is_private_email"), !has("email") { note("is_private_email stands without email") }
            for name in ["nonce", "redirect_uri"] where has(name) { note("\(name) stands without code") }
        }
        return signIn
    }
}

private struct SignInDocument: Encodable {
    var id: RowReference
    var clientId, outcome: String
    var reason, detail: String?
    var signedInAt, settledAt: Timestamp?
    var realUserStatus: Int?
    var user: UserState?

    init(_ outcome: SignInOutcome) {
        (id, clientId, self.outcome, reason) = (outcome.row, outcome.clientID, outcome.outcome, outcome.reason)
        detail = outcome.explanation
        (signedInAt, realUserStatus, settledAt) = (outcome.signedInAt, outcome.realUserStatus, outcome.settledAt)
        user = outcome.isSignedIn ? outcome.user : nil
    }
}

extension SignInOutcome {
    /// Which member of the request is wrong, and why, with the words in the log at the end. Nil unless the sign-in was rejected.
    var explanation: String? {
        if logged == .inFuture { return "signed_in_at was still ahead of Apple's clock after a week" }
        guard let rejection = reason.flatMap(GrantRejection.init) else { return detail }
        // The verifier names the claim that does not match.
        if rejection == .badIDToken, let nonce = detail?.split(separator: ": nonce: ", maxSplits: 1), nonce.count == 2 {
            return "nonce is not the one in the id_token: \(nonce[1])"
        }
        return [rejection.words, detail].compactMap(\.self).joined(separator: ": ")
    }
}
