// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A decision that stands in the tables, where other programs may write too: an operator's, or siwatch's own. A proof covers all fields.
package enum Decision: Sendable, Equatable {
    /// - Parameter number: a random one, so that no two requests have the same proof.
    case request(text: String, at: Timestamp, number: Int64)
    /// How far a long request has come.
    case progress(request: Int64, number: Int64, position: String)
    /// An operator has confirmed a request to revoke that the revocation limit held. The names are bytes, because a backend wrote them.
    case confirmation(request: Int64, clientID: [UInt8], userID: [UInt8], requestedAt: Timestamp, at: Timestamp)
    /// siwatch has taken up a request to revoke, with this token.
    case opening(request: Int64, CredentialID, RefreshToken.Key, requestedAt: Timestamp)
    /// siwatch has answered such a request: from then on it counts.
    case receipt(request: Int64, CredentialID, tokenGrantedAt: Timestamp, effectiveAt: Timestamp)
    case limit(app: Int64, RevocationLimit)
    case pause(app: Int64, since: Timestamp?)
    /// The state of an app's breaker, as its row holds it.
    case breaker(app: Int64, state: String?)
    /// Names the database among those of other keys.
    case database
}

extension Decision {
    /// What a proof is made of. Each field follows its length in four bytes, so that no two decisions have the same bytes.
    package var contents: [UInt8] {
        fields.reduce(into: []) { contents, field in
            contents += bytes(UInt32(field.count))
            contents += field
        }
    }

    private var fields: [[UInt8]] {
        switch self {
        case .request(let request, let time, let number): [text("request"), bytes(time), bytes(number), text(request)]
        case .progress(let request, let number, let position): [text("progress"), bytes(request), bytes(number), text(position)]
        case .confirmation(let request, let clientID, let userID, let requestedAt, let time):
            [text("confirmation"), bytes(request), clientID, userID, bytes(requestedAt), bytes(time)]
        case .opening(let request, let credential, let token, let requestedAt):
            [text("opening"), bytes(request), text(credential.clientID), text(credential.userID), bytes(token.grantedAt)]
                + [token.fingerprint, bytes(requestedAt)]
        case .receipt(let request, let credential, let tokenGrantedAt, let effectiveAt):
            [text("receipt"), bytes(request), text(credential.clientID), text(credential.userID), bytes(tokenGrantedAt)]
                + [bytes(effectiveAt)]
        case .limit(let app, let limit):
            [text("limit"), bytes(app), bytes(limit.hourBeganAt), bytes(Int64(limit.opened)), bytes(limit.reachedAt)]
                + [bytes(Int64(limit.held))]
        case .pause(let app, let time): [text("pause"), bytes(app), bytes(time)]
        case .breaker(let app, let state): [text("breaker"), bytes(app), text(state ?? "")]
        case .database: [text("database")]
        }
    }

    private func text(_ text: String) -> [UInt8] { Array(text.utf8) }
    private func bytes(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }
    /// No bytes without a time.
    private func bytes(_ time: Timestamp?) -> [UInt8] { time.map { bytes($0.milliseconds) } ?? [] }
}

/// Tells the decisions that siwatch wrote from those of anybody else who can write into the database.
package protocol DecisionProver: Sendable {
    func prove(_ decision: Decision) -> [UInt8]
    func isProved(_ decision: Decision, by proof: [UInt8]) -> Bool
}

/// Keeps what the only writer of a database knows of its decisions from one process to the next, where no backend can write.
package protocol DecisionMemory: Sendable {
    /// Nil if nothing is kept.
    func load() -> String?
    /// Replaces what is kept, whole or not at all.
    func save(_ text: String)
}

/// The place of a decision in the tables.
package struct DecisionRow: Sendable, Hashable {
    package var kind: Kind
    /// Of the row: of a token to revoke, that of its request.
    package var id: Int64

    package init(_ kind: Kind, _ id: Int64) { (self.kind, self.id) = (kind, id) }

    /// The words stand in the metric `planted_decisions_total` and in the log event `decision_planted`.
    package enum Kind: String, Sendable, CaseIterable {
        /// A row of `operator_request`.
        case request
        /// `revocation_queue.confirmed_at`.
        case confirmation
        /// A row of `revocation`, or of `revocation_log`, that may let siwatch revoke a token without the revocation limit.
        case revocation
        /// The count of an app's requests to revoke, in `app`, or of its authorized credentials, in `credential_count`.
        case limit
        /// `app.paused_at`.
        case pause
        /// A row of `breaker`.
        case breaker
    }
}

/// Decisions of one kind that siwatch has not written, and that it has not carried out.
package struct PlantedDecisions: Sendable, Equatable {
    package var kind: DecisionRow.Kind
    package var count: Int
    /// The first rows, at most `mostIDs`.
    package var ids: [Int64]

    package static let mostIDs = 5

    package init(_ kind: DecisionRow.Kind, count: Int = 0, ids: [Int64] = []) { (self.kind, self.count, self.ids) = (kind, count, ids) }
}
