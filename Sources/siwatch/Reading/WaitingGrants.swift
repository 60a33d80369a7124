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

    /// One for each reason to wait.
    @FindingList func findings(at now: Timestamp) -> [Finding] {
        let runbook = "siwatchqueueheadstuck"
        let unknown = unknownClients.reduce(0) { $0 + $1.count }
        let isCut = unknown + forStart + forTime >= Self.mostCounted
        if unknown > 0 {
            let names = unknownClients.prefix(3).map { "\($0.clientID.printable) \($0.count)" }.joined(separator: ", ")
            let others = unknownClients.count > 3 ? " and \(unknownClients.count - 3) others" : ""
            let waiting = "\(Self.waiting(unknown, isCut)) a week for an app of the configuration to name their client"
            Finding(.degraded, "\(waiting): \(names)\(others)", runbook: runbook)
        }
        if forStart > 0 {
            let sentence = "\(Self.waiting(forStart, isCut)) for siwatch's next start, which takes their clients in"
            Finding(.degraded, sentence, runbook: runbook)
        }
        if forTime > 0 {
            let sentence = "\(Self.waiting(forTime, isCut)) for their time, dated ahead of the clock"
            // A clock that is off by seconds is no trouble.
            let isOld = forTimeSince.map { $0 < now.advanced(by: .hours(-1)) } ?? false
            Finding(isOld ? .degraded : .note, sentence, runbook: runbook)
        }
        if withCode > 0 {
            let oldest = oldestCode.map { ", the oldest for \($0.duration(to: now).text)" } ?? ""
            Finding(.note, "\(Self.waiting(withCode, withCode >= Self.mostCounted)) for Apple to exchange their code\(oldest)")
        }
    }

    private static func waiting(_ count: Int, _ isCut: Bool) -> String {
        "\(count)\(isCut ? " or more" : "") \(count == 1 ? "sign-in waits" : "sign-ins wait")"
    }
}
