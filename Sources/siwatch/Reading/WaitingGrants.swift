// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// Sign-ins that stay in their queue although the daemon runs, by what they wait for.
struct WaitingGrants: Encodable {
    /// Wait for an app of the configuration to name their client.
    var unknownClients: [Client] = []
    /// Wait for the daemon to start with the configuration that names their client.
    var forStart = 0
    /// Wait for the time of their date.
    var forTime = 0
    /// Since when the first of these waits.
    var forTimeSince: Timestamp?
    /// Wait for the exchange of their code.
    var withCode: Int
    /// The time of the oldest of these.
    var oldestCode: Timestamp?
    /// End within a minute.
    var codesEnding: Int

    /// Rows are counted up to this number.
    static let mostCounted = 10_000

    struct Client: Encodable {
        var clientID: String
        var count: Int
    }

    init(_ counts: WaitingGrantCounts, configured: Set<String>) {
        withCode = counts.withCode
        oldestCode = counts.oldestCode
        codesEnding = counts.codesEnding
        var unknown: [String: Int] = [:]
        for group in counts.putOff {
            if !configured.contains(group.clientID) {
                // A backend that mixes columns up may have put a token or a `sub` there.
                unknown[group.clientID.looksLikeClientID ? group.clientID : "(not a client id)", default: 0] += group.count
            } else if group.isAhead {
                forTime += group.count
                forTimeSince = [forTimeSince, group.since].compactMap(\.self).min()
            } else {
                forStart += group.count
            }
        }
        unknownClients = unknown.map { Client(clientID: $0.key, count: $0.value) }
            .sorted { ($1.count, $0.clientID) < ($0.count, $1.clientID) }
    }

    /// Why some of them wait.
    struct Reason {
        var text: String
        /// Whether they wait until somebody does something.
        var isTrouble = false
        var runbook: String?
    }

    /// One for each reason to wait.
    func reasons(at now: Timestamp) -> [Reason] {
        let putOff = unknownClients.reduce(forStart + forTime) { $0 + $1.count }
        let more = putOff < Self.mostCounted ? "" : " or more"
        func waiting(_ count: Int) -> String { "\(count)\(more) \(count == 1 ? "sign-in waits" : "sign-ins wait")" }
        var reasons: [Reason] = []
        if !unknownClients.isEmpty {
            let names = unknownClients.prefix(3).map { "\($0.clientID.printable) \($0.count)" }.joined(separator: ", ")
            let others = unknownClients.count > 3 ? " and \(unknownClients.count - 3) others" : ""
            let count = unknownClients.reduce(0) { $0 + $1.count }
            let text = "\(waiting(count)) a week for an app of the configuration to name their client: \(names)\(others)"
            reasons.append(Reason(text: text, isTrouble: true, runbook: "siwatchqueueheadstuck"))
        }
        if forStart > 0 {
            let text = "\(waiting(forStart)) for siwatch's next start, which takes their clients in"
            reasons.append(Reason(text: text, isTrouble: true, runbook: "siwatchqueueheadstuck"))
        }
        if forTime > 0 {
            let text = "\(waiting(forTime)) for their time, dated ahead of the clock"
            // A clock that is off by seconds is no trouble.
            let isOld = forTimeSince.map { $0 < now.advanced(by: .hours(-1)) } ?? false
            reasons.append(Reason(text: text, isTrouble: isOld, runbook: "siwatchqueueheadstuck"))
        }
        if withCode > 0 {
            let more = withCode < Self.mostCounted ? "" : " or more"
            let oldest = oldestCode.map { ", the oldest for \($0.duration(to: now).text)" } ?? ""
            reasons.append(
                Reason(
                    text:
                        "\(withCode)\(more) \(withCode == 1 ? "sign-in waits" : "sign-ins wait") for Apple to exchange their code\(oldest)"
                )
            )
        }
        return reasons
    }
}
