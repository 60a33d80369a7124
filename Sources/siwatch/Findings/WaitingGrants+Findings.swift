// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

extension WaitingGrants {
    /// Without what a backend that mixes columns up has put in the place of a client: a token, or a `sub`.
    func naming(_ configured: Set<String>) -> WaitingGrants {
        var waiting = self
        for index in putOff.indices where !configured.contains(putOff[index].clientID) && !putOff[index].clientID.looksLikeClientID {
            waiting.putOff[index].clientID = "(not a client id)"
        }
        return waiting
    }

    /// One for each reason to wait.
    @FindingList func findings(at now: Timestamp, _ configured: Set<String>) -> [Finding] {
        let runbook = "siwatchqueueheadstuck"
        let isCut = Self.count(putOff) >= Overview.mostWaiting
        let known = putOff.filter { configured.contains($0.clientID) }
        let unknown = Dictionary(grouping: naming(configured).putOff.filter { !configured.contains($0.clientID) }, by: \.clientID)
            .map { (clientID: $0, count: Self.count($1)) }.sorted { ($1.count, $0.clientID) < ($0.count, $1.clientID) }
        if !unknown.isEmpty {
            let names = unknown.prefix(3).map { "\($0.clientID.printable) \($0.count)" }.joined(separator: ", ")
            let others = unknown.count > 3 ? " and \(unknown.count - 3) others" : ""
            let waiting = Self.waiting(unknown.reduce(0) { $0 + $1.count }, isCut)
            let sentence = "\(waiting) a week for an app of the configuration to name their client: \(names)\(others)"
            Finding(.degraded, sentence, runbook: runbook)
        }
        let forStart = Self.count(known.filter { !$0.isAhead })
        if forStart > 0 {
            let sentence = "\(Self.waiting(forStart, isCut)) for siwatch's next start, which takes their clients in"
            Finding(.degraded, sentence, runbook: runbook)
        }
        let forTime = known.filter(\.isAhead)
        if !forTime.isEmpty {
            let sentence = "\(Self.waiting(Self.count(forTime), isCut)) for their time, dated ahead of the clock"
            // A clock that is off by seconds is no trouble.
            let isOld = forTime.compactMap(\.since).min().map { $0 < now.advanced(by: .hours(-1)) } ?? false
            Finding(isOld ? .degraded : .note, sentence, runbook: runbook)
        }
        if withCode > 0 {
            let oldest = oldestCode.map { ", the oldest for \($0.duration(to: now).text)" } ?? ""
            Finding(.note, "\(Self.waiting(withCode, withCode >= Overview.mostWaiting)) for Apple to exchange their code\(oldest)")
        }
    }

    private static func count(_ groups: [PutOff]) -> Int { groups.reduce(0) { $0 + $1.count } }

    private static func waiting(_ count: Int, _ isCut: Bool) -> String {
        "\(count)\(isCut ? " or more" : "") \(count == 1 ? "sign-in waits" : "sign-ins wait")"
    }
}
