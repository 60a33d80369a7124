// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Apple's last answer to each lane of each app, since this process started.
final class LastAnswers: Sendable {
    private struct Key: Hashable {
        var app: String
        var lane: AskingLane
    }

    private let answers = NIOLockedValueBox<[Key: LaneAnswer]>([:])

    func note(_ kind: String, at now: Timestamp, of app: String, _ lane: AskingLane) {
        answers.withLockedValue { $0[Key(app: app, lane: lane)] = LaneAnswer(app: app, lane: lane, at: now, kind: kind) }
    }

    /// By app, then by lane.
    var all: [LaneAnswer] {
        answers.withLockedValue { Array($0.values) }.sorted { ($0.app, $0.lane.rawValue) < ($1.app, $1.lane.rawValue) }
    }
}

/// A lane that asks Apple.
package enum AskingLane: String, Sendable, Hashable, CaseIterable, Encodable {
    case checks, codes, revocations
}

package struct LaneAnswer: Sendable, Equatable, Encodable {
    package var app: String
    package var lane: AskingLane
    package var at: Timestamp
    /// `200`, `429`, Apple's word such as `invalid_client`, what went wrong such as `status 503` or `timeout`, or `answered` for an answer
    /// about a token or a code.
    package var kind: String
}

extension Telemetry {
    /// Apple's last answer to each lane of each app.
    package var lastAnswers: [LaneAnswer] { answers.all }
}
