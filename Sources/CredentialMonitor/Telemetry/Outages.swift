// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import Logging
import NIOConcurrencyHelpers

/// Troubles that go on. A trouble is logged when it begins, when it changes and when it ends, and not at every look.
final class Episodes: Sendable {
    private struct Key: Hashable {
        var beginning: LoggedEvent
        var subject: [String: String]
    }

    private let troubles = NIOLockedValueBox<[Key: String]>([:])

    /// - Returns: whether it is news.
    func note(_ beginning: LoggedEvent, of subject: [String: String], _ trouble: String?) -> Bool {
        let key = Key(beginning: beginning, subject: subject)
        return troubles.withLockedValue { troubles in
            defer { troubles[key] = trouble }
            return troubles[key] != trouble
        }
    }

    func forget(_ beginning: LoggedEvent, of subject: [String: String] = [:]) { _ = note(beginning, of: subject, nil) }

    func subjects(of beginning: LoggedEvent) -> [[String: String]] {
        troubles.withLockedValue { $0.keys.filter { $0.beginning == beginning }.map(\.subject) }
    }
}

extension Telemetry {
    /// Logs news of a trouble: of the subject, with what is wrong as its reason; empty if the event says it, nil if nothing is wrong.
    package func episode(
        _ beginning: LoggedEvent,
        until end: LoggedEvent,
        of subject: [String: String] = [:],
        _ trouble: String?,
        _ details: Logger.Metadata = [:]
    ) {
        guard episodes.note(beginning, of: subject, trouble) else { return }
        var line = details.merging(subject.mapValues { "\($0)" }) { $1 }
        if let trouble, !trouble.isEmpty { line["reason"] = "\(trouble)" }
        log(trouble == nil ? end : beginning, line)
    }
}

/// Whether others answer: Apple each app, and the database all loops. It turns thousands of failures into a line for each kind, and one
/// line at the end. All sufferers of a subject share an outage. It lasts until each sufferer that has failed has its answers.
final class Outages<Sufferer: Hashable & Sendable, Time: InstantProtocol & Sendable>: Sendable where Time.Duration == Swift.Duration {
    struct Rules: Sendable {
        /// So many failures may be chance. The first line comes with the next failure, or with one after `patience`.
        var tolerated = 0
        var patience = Duration.zero
        var reminder: Duration
        /// A sufferer has its answers after so many in a row, or with one if nothing has failed for `patience`.
        var proof = 1
        /// A sufferer that asks for nothing so long after its failure has nothing to ask. Nil if each sufferer asks again.
        var longestQuiet: Duration?
    }

    private struct Outage {
        var since: Time
        var failures = 0
        /// The last failure of each sufferer without its proof, and its answers in a row since.
        var sufferers: [Sufferer: (failedAt: Time, answers: Int)] = [:]
        var toldAt: [String: Time] = [:]

        /// Whether the last word to each sufferer is an answer, and a quiet while. Nobody asks, so it may be over.
        func mayBeOver(at now: Time, after patience: Duration) -> Bool {
            sufferers.values.allSatisfy { $0.answers > 0 && $0.failedAt.duration(to: now) >= patience }
        }
    }

    private let rules: Rules
    private let outages = NIOLockedValueBox<[String: Outage]>([:])

    init(_ rules: Rules) {
        self.rules = rules
    }

    /// - Parameter kind: in words without anything of the request.
    func failed(_ subject: String, _ sufferer: Sufferer, _ kind: String, at now: Time) -> OutageNews? {
        outages.withLockedValue { outages in
            let known = outages[subject].flatMap { $0.mayBeOver(at: now, after: rules.patience) ? nil : $0 }
            var outage = known ?? Outage(since: now)
            defer { outages[subject] = outage }
            outage.failures += 1
            outage.sufferers[sufferer] = (now, 0)
            let lasts = outage.since.duration(to: now)
            guard outage.failures > rules.tolerated || lasts >= rules.patience else { return nil }
            if let toldAt = outage.toldAt[kind], toldAt <= now, now < toldAt.advanced(by: rules.reminder) { return nil }
            outage.toldAt[kind] = now
            return OutageNews(failures: outage.failures, lasts: lasts)
        }
    }

    /// - Returns: how long the outage lasted that ends now, if it was told; nil otherwise.
    func answered(_ subject: String, _ sufferer: Sufferer, at now: Time) -> OutageNews? {
        outages.withLockedValue { outages in
            guard var outage = outages[subject] else { return nil }
            outage.sufferers[sufferer]?.answers += 1
            outage.sufferers = outage.sufferers.filter { other, state in
                let quiet = state.failedAt.duration(to: now)
                if other == sufferer { return state.answers < rules.proof && quiet < rules.patience }
                return rules.longestQuiet.map { quiet < $0 } ?? true
            }
            outages[subject] = outage.sufferers.isEmpty ? nil : outage
            guard outage.sufferers.isEmpty, !outage.toldAt.isEmpty else { return nil }
            return OutageNews(failures: outage.failures, lasts: outage.since.duration(to: now))
        }
    }

    func forget(_ subject: String) { outages.withLockedValue { $0[subject] = nil } }
}

struct OutageNews: Equatable {
    var failures: Int
    var lasts: Duration

    var metadata: Logger.Metadata { ["count": "\(failures)", "duration_ms": "\(lasts.milliseconds)"] }
}

extension Outages.Rules {
    /// One request to Apple may fail by chance, and three in a row need not. A code is over after five minutes.
    static var ofApple: Self { Self(tolerated: 2, patience: .minutes(1), reminder: .hours(1), proof: 5, longestQuiet: .minutes(5)) }
}

extension Outages where Time == Timestamp {
    func told(at now: Timestamp) -> [AppAbsence] {
        let told = outages.withLockedValue { $0.filter { !$1.toldAt.isEmpty && !$1.mayBeOver(at: now, after: rules.patience) } }
        return told.sorted { $0.key < $1.key }.map { app, outage in
            AppAbsence(app: app, since: outage.since, failures: outage.failures, kinds: outage.toldAt.keys.sorted())
        }
    }
}

package struct AppAbsence: Sendable, Equatable, Encodable {
    package var app: String
    package var since: Timestamp
    package var failures: Int
    /// What was told of them, as in `LaneAnswer.kind`.
    package var kinds: [String]
}
