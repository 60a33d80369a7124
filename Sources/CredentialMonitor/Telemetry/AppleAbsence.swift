// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Whether Apple answers the requests of each app. It turns thousands of failed requests into one warning, and one line when Apple is back.
///
/// All lanes of an app share an absence, because they ask the same servers. It lasts until each lane that has failed has its answers.
final class AppleAbsence: Sendable {
    /// What to tell of a failed request.
    struct News: Equatable {
        /// Requests without an answer since the absence began.
        var failures: Int
        var lasts: Duration
    }

    private struct Absence {
        var since: Timestamp
        var failures = 0
        /// The last failure of each lane without its proof, and its answers in a row since.
        var lanes: [AskingLane: (failedAt: Timestamp, answers: Int)] = [:]
        /// When each kind of failure was last told.
        var toldAt: [String: Timestamp] = [:]
    }

    /// One request may fail by chance, and three in a row need not: so the first warning comes with the third, or with one after a minute.
    private static let tolerated = 2
    private static let patience = Duration.minutes(1)
    /// How often a kind of failure is told again.
    private static let reminder = Duration.hours(1)
    /// Apple is back after so many answers in a row, or with one if no request has failed for a while.
    private static let proof = 5
    /// A lane that asks for nothing so long after its failure has nothing to ask: a code is over by then.
    private static let longestQuiet = Duration.minutes(5)

    /// Forgets an app for which another replica asks from now on.
    func forget(_ app: String) {
        absences.withLockedValue { $0[app] = nil }
    }

    /// The absences that were told, by app. One of which Apple's last word is an answer, and a quiet while, may be over: nobody asks.
    func told(at now: Timestamp) -> [AppAbsence] {
        absences.withLockedValue { absences in
            absences.filter { _, absence in
                !absence.toldAt.isEmpty
                    && absence.lanes.values.contains { $0.answers == 0 || $0.failedAt.duration(to: now) < Self.patience }
            }.sorted { $0.key < $1.key }.map { app, absence in
                AppAbsence(app: app, since: absence.since, failures: absence.failures, kinds: absence.toldAt.keys.sorted())
            }
        }
    }

    private let absences = NIOLockedValueBox<[String: Absence]>([:])

    /// - Parameter kind: in words without anything of the request.
    /// - Returns: what to log; nil if nothing is to be logged.
    func failed(_ app: String, _ lane: AskingLane, _ kind: String, at now: Timestamp) -> News? {
        absences.withLockedValue { absences in
            // After an answer and a quiet while, this is another absence.
            let known = absences[app].flatMap { absence in
                absence.lanes.values.allSatisfy { $0.answers > 0 && $0.failedAt.duration(to: now) >= Self.patience } ? nil : absence
            }
            var absence = known ?? Absence(since: now)
            defer { absences[app] = absence }
            absence.failures += 1
            absence.lanes[lane] = (now, 0)
            let lasts = absence.since.duration(to: now)
            guard absence.failures > Self.tolerated || lasts >= Self.patience else { return nil }
            if let toldAt = absence.toldAt[kind], toldAt <= now, now < toldAt.advanced(by: Self.reminder) { return nil }
            absence.toldAt[kind] = now
            return News(failures: absence.failures, lasts: lasts)
        }
    }

    /// - Returns: how long the absence lasted that ends now, if it was told; nil otherwise.
    func answered(_ app: String, _ lane: AskingLane, at now: Timestamp) -> News? {
        absences.withLockedValue { absences in
            guard var absence = absences[app] else { return nil }
            absence.lanes[lane]?.answers += 1
            absence.lanes = absence.lanes.filter { other, state in
                let quiet = state.failedAt.duration(to: now)
                return other == lane ? state.answers < Self.proof && quiet < Self.patience : quiet < Self.longestQuiet
            }
            absences[app] = absence.lanes.isEmpty ? nil : absence
            guard absence.lanes.isEmpty else { return nil }
            return absence.toldAt.isEmpty ? nil : News(failures: absence.failures, lasts: absence.since.duration(to: now))
        }
    }
}

/// Apple gives an app no usable answers.
package struct AppAbsence: Sendable, Equatable, Encodable {
    package var app: String
    package var since: Timestamp
    /// Requests without a usable answer since then.
    package var failures: Int
    /// What was told of them, as in `LaneAnswer.kind`.
    package var kinds: [String]
}

extension Telemetry {
    /// The apps that Apple gives no usable answers.
    package func absences(at now: Timestamp) -> [AppAbsence] { absence.told(at: now) }
}
