// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import CredentialMonitor
import SQLiteStore

/// What keeps backends from telling and hearing.
extension StatusReport {
    var ofBackends: [Finding] {
        let bug = "backends that open the file have to set PRAGMA wal_autocheckpoint=0: SQLite \(sqlite ?? "") has the WAL-reset bug"
        return (insertObstacle.map { [finding(ofInsertObstacle: $0)] } ?? [])
            + (insertWeakness.map { [Finding(.degraded, $0, runbook: "siwatchbackendslockedout")] } ?? [])
            + (hasWALResetBug ? [Finding(.note, bug)] : [])
    }

    private func finding(ofInsertObstacle obstacle: String) -> Finding {
        let sentence = "backends cannot insert: \(obstacle)"
        if obstacle.contains(InsertProbe.ownSlowness) { return Finding(.down, sentence, runbook: "siwatchstoreslow") }
        return down(sentence, runbook: obstacle.hasPrefix(StoreError.absence) ? "siwatchnotready" : "siwatchbackendslockedout")
    }

    /// A full disk is the cause, wherever it shows.
    func down(_ sentence: String, runbook: String) -> Finding {
        guard sentence.contains(": \(StoreError.fullDisk) ") else { return Finding(.down, sentence, runbook: runbook) }
        let remedy = postgresql == nil ? DiskSpace.remedy : DiskSpace.remedyOfServer
        return Finding(.down, sentence, remedy: remedy, runbook: "siwatchstorefull")
    }

    /// Requests and sign-ins of a backend that errs, and may swallow what it is told.
    var ofRefusals: [Finding] {
        let requests = (daemon?.refusals ?? []).map { requests in
            let (isUseless, share) = (requests.isDoorUseless, "\(requests.refused) of \(requests.asked) requests")
            let client =
                (requests.client == "none" ? "without a token that siwatch knows" : "of \(requests.client.printable)")
                + (requests.operation.map { " (\($0))" } ?? " for paths that are none")
            if requests.isAnswered {
                let sentence = "the HTTP door answered \(share) \(client) within ten minutes that were hardly meant: \(requests.words)"
                return Finding(.note, sentence)
            }
            let more = isUseless ? ", and has served none since its start" : ""
            let last = "the last \(ago(requests.at)): \(requests.words)"
            let sentence = "the HTTP door refused \(share) \(client) within ten minutes\(more), \(last)"
            let runbook = isUseless ? "siwatchdooruseless" : "siwatchrequestsrefused"
            return Finding(isUseless ? .down : .degraded, sentence, runbook: runbook)
        }
        return requests
            + rejectedSignIns.map { signIns in
                let words = GrantRejection(rawValue: signIns.reason).map { ": \($0.words)" } ?? ""
                let share = "\(signIns.rejected) of the last \(signIns.settled) sign-ins within an hour came to nothing"
                let sentence = "\(signIns.clientID.printable): \(share), as \(signIns.reason.printable)\(words)"
                let isLost = signIns.reason == GrantRejection.answerLost.rawValue
                return Finding(isLost ? .down : .degraded, sentence, runbook: isLost ? "siwatchanswerslost" : "siwatchcodesrefused")
            }
    }

    var ofQueues: [Finding] {
        var findings: [Finding] = []
        if waitingGrants.codesEnding > 0 {
            let sentence = "\(waitingGrants.codesEnding.counted("code ends", "codes end")) within a minute, so people cannot sign in"
            findings.append(Finding(.down, sentence, runbook: "siwatchcodesexpired"))
        }
        let oldest = queues.first { $0.queue == "notification" }?.oldest.map(Timestamp.init(milliseconds:))
        if let oldest, oldest < at.advanced(by: .minutes(-15)) {
            findings.append(
                Finding(.down, "the oldest notification waits for \(oldest.duration(to: at).text)", runbook: "siwatchnotificationswaiting")
            )
        }
        findings += apps.map(BrakeReport.init).filter { $0.setAt != nil }.map { Finding(.down, $0.text, runbook: "siwatchrevocationsheld") }
        findings += waitingGrants.reasons(at: at).map { Finding($0.isTrouble ? .degraded : .note, $0.text, runbook: $0.runbook) }
        if let quarantine = signedInQuarantine {
            findings.append(Finding(.note, quarantine, runbook: "siwatchsignednotificationsrejected"))
        }
        return findings + (foreignIDs.finding.map { [$0] } ?? []) + ofRevocations
    }

    /// That the way of Apple's notifications is closed, or that none has come for ten times as long as was usual.
    var ofSilence: [Finding] {
        let runbook = "siwatchnotificationssilent"
        if let obstacle = daemon?.intakeObstacle {
            let sentence = "what Apple posts does not arrive: \(obstacle)"
            return [Finding(.degraded, sentence, remedy: "siwatch intake test URL says more", runbook: runbook)]
        }
        guard let newest = newestNotification, let oldest = notifications.last, notifications.count > 9 else { return [] }
        let usual = oldest.duration(to: newest) / (notifications.count - 1)
        guard newest.duration(to: at) > max(.hours(24), usual * 10) else { return [] }
        let sentence = "Apple's last notification came \(ago(newest)), where one each \(usual.text) was usual"
        return [Finding(.degraded, sentence, runbook: runbook)]
    }

    /// Notifications that Apple signed, and that siwatch did not believe for another reason.
    private var signedInQuarantine: String? {
        let signed = quarantined.filter { RejectionReason(rawValue: $0.key).map { $0.ring == nil && $0 != .poison } ?? false }.sorted {
            $0.key < $1.key
        }
        guard !signed.isEmpty else { return nil }
        let count = signed.map(\.value).reduce(0, +).counted("notification that Apple signed is", "notifications that Apple signed are")
        return "\(count) in quarantine (\(signed.map { "\($0.key) \($0.value)" }.joined(separator: ", ")))"
    }

    /// A daemon that does not answer may have another configuration.
    var ofAbandonedDeliveries: [Finding] {
        guard !isRunning || daemon != nil else { return [] }
        return abandonedDeliveries.sorted { $0.key < $1.key }.map { name, position in
            let sentence = "nobody sends the webhooks of \(name.printable), which is not in the configuration: \(position.unsent)"
            return Finding(.degraded, sentence, remedy: DeliveryPosition.abandonedAdvice(name))
        }
    }

    /// What the siwatch that sends leaves out is passed over for all.
    var ofDifferentDeliveries: [Finding] {
        let living = (replicas ?? []).filter { $0.isLiving(at: at) }
        let digests = living.reduce(into: [String: Set<String>]()) { digests, status in
            for (name, digest) in status.replica.deliveries ?? [:] { digests[name, default: []].insert(digest) }
        }
        return digests.filter { $0.value.count > 1 }.keys.sorted().map { name in
            let sentence = "not every siwatch has the same delivery \(name.printable): what one of them leaves out is lost while it sends"
            return Finding(.degraded, sentence, remedy: "the same apps and types on each, and a restart")
        }
    }

    var ofDeliveries: [Finding] {
        (daemon?.deliveries ?? []).flatMap { delivery -> [Finding] in
            let (name, replay) = (delivery.name.printable, "siwatch delivery replay \(delivery.name.shellQuoted.printable)")
            var findings: [Finding] = []
            if let outage = delivery.outage {
                // A receiver that is restarted is no trouble.
                let isLong = outage.since < at.advanced(by: .minutes(-15))
                let sentence = "\(name) takes no webhooks since \(outage.since.text): \(outage.reason.printable)"
                let test = "siwatch delivery test \(delivery.name.shellQuoted.printable) says what comes back"
                let remedy = "\(test); a new secret or ca_file takes a reload, a new url a restart"
                findings.append(Finding(isLong ? .down : .degraded, sentence, remedy: remedy, runbook: "siwatchdeliverybehind"))
            }
            if let since = delivery.position?.stoppedAt {
                let sentence = "\(name) gets no webhooks since \(since.text), because it said that it is gone (410)"
                findings.append(Finding(.down, sentence, remedy: replay, runbook: "siwatchdeliverybehind"))
            }
            if let waiting = delivery.position?.waiting, waiting > 0 {
                let sentence = "\(name) did not take \(waiting.counted("webhook")) that siwatch sends again"
                let isOld = delivery.position?.oldestWaiting.map { $0 < at.advanced(by: .hours(-1)) } ?? false
                let runbook = isOld ? "siwatchdeliverywaiting" : nil
                findings.append(Finding(isOld ? .degraded : .note, sentence, remedy: replay, runbook: runbook))
            }
            if let dead = delivery.position?.dead, dead > 0 {
                let sentence = "\(name) has not taken \(dead.counted("webhook")) for days, and gets them no more"
                findings.append(Finding(.degraded, sentence, remedy: replay, runbook: "siwatchdeliverydead"))
            }
            return findings
        }
    }

    private var ofRevocations: [Finding] {
        let waiting = waitingRevocations
        let share = "\(waiting.newestWithoutToken) of the last \(waiting.newest) requests to revoke"
        let isVain = waiting.newestWithoutToken >= 5 && waiting.newestWithoutToken * 5 >= waiting.newest * 4
        let vain = isVain ? [Finding(.note, "\(share) found no token: a request names the user by Apple's sub")] : []
        guard waiting.requests > 0 else { return vain }
        let requests = waiting.requests.counted("request to revoke waits", "requests to revoke wait")
        var line = "\(requests), with \(waiting.tokens.counted("token")) at work"
        if let oldest = waiting.oldest { line += ", the oldest for \(oldest.duration(to: at).text)" }
        let isOld = waiting.oldest.map { $0 < at.advanced(by: .hours(-1)) } ?? false
        var findings = [Finding(isOld ? .degraded : .note, line, runbook: isOld ? "siwatchrevocationsunproved" : nil)]
        if waiting.stillAccepted > 0 {
            let sentence = "Apple still accepts \(waiting.stillAccepted.counted("token")) that it was asked to revoke"
            findings.append(Finding(.note, sentence, runbook: "siwatchrevocationsunproved"))
        }
        if waiting.unbelieved > 0 {
            let sentence = "Apple rejected \(waiting.unbelieved.counted("token")) before the revocation, which is not believed yet"
            findings.append(Finding(.note, sentence))
        }
        return findings + vain
    }
}
