// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import SQLiteStore

/// What keeps backends from telling and hearing.
extension StatusReport {
    @FindingList var ofBackends: [Finding] {
        insertObstacle.map(finding(ofInsertObstacle:))
        insertWeakness.map { Finding(.degraded, $0, runbook: .backendsLockedOut) }
        if hasWALResetBug {
            let version = "SQLite \(sqlite ?? "")"
            Finding(.note, "backends that open the file have to set PRAGMA wal_autocheckpoint=0: \(version) has the WAL-reset bug")
        }
    }

    private func finding(ofInsertObstacle obstacle: String) -> Finding {
        let sentence = "backends cannot insert: \(obstacle)"
        if obstacle.contains(InsertProbe.ownSlowness) { return Finding(.down, sentence, runbook: .storeErrors) }
        return down(sentence, runbook: obstacle.hasPrefix(StoreError.absence) ? .notReady : .backendsLockedOut)
    }

    /// A full disk is the cause, wherever it shows.
    func down(_ sentence: String, runbook: Runbook) -> Finding {
        guard sentence.contains(": \(StoreError.fullDisk) ") else { return Finding(.down, sentence, runbook: runbook) }
        let remedy = configuration.database.url == nil ? DiskSpace.remedy : DiskSpace.remedyOfServer
        return Finding(.down, sentence, remedy: remedy, runbook: .storeFull)
    }

    /// Requests and sign-ins of a backend that errs, and may swallow what it is told.
    @FindingList var ofRefusals: [Finding] {
        (daemon?.refusals ?? []).map(finding(of:))
        tables.rejectedSignIns.map { signIns in
            let words = GrantRejection(rawValue: signIns.reason).map { ": \($0.words)" } ?? ""
            let share = "\(signIns.rejected) of the last \(signIns.settled) sign-ins within an hour came to nothing"
            let sentence = "\(signIns.clientID.printable): \(share), as \(signIns.reason.printable)\(words)"
            let isLost = signIns.reason == GrantRejection.answerLost.rawValue
            return Finding(isLost ? .down : .degraded, sentence, runbook: isLost ? .codesExpired : .codesFailed)
        }
    }

    private func finding(of requests: RefusedRequests) -> Finding {
        let client = requests.client == Telemetry.noClient ? "without a token that siwatch knows" : "of \(requests.client.printable)"
        let operation = requests.operation.map { "(\($0))" } ?? "for paths that are none"
        let share = "\(requests.refused) of \(requests.asked) requests \(client) \(operation) within ten minutes"
        if requests.isAnswered {
            return Finding(.note, "the HTTP door answered \(share) that were hardly meant: \(requests.words)")
        }
        let last = "the last \(ago(requests.at)): \(requests.words)"
        guard requests.isDoorUseless else {
            return Finding(.degraded, "the HTTP door refused \(share), \(last)", runbook: .requestsRefused)
        }
        let sentence = "the HTTP door refused \(share), and has served none since its start, \(last)"
        return Finding(.down, sentence, runbook: .doorUseless)
    }

    @FindingList var ofQueues: [Finding] {
        let waitingGrants = tables.backlog.waitingGrants
        if waitingGrants.codesEnding > 0 {
            let sentence = "\(waitingGrants.codesEnding.counted("code ends", "codes end")) within a minute, so people cannot sign in"
            Finding(.down, sentence, runbook: .codesExpired)
        }
        if let oldest = tables.queues.first(where: { $0.queue == "notification" })?.oldest.map(Timestamp.init(milliseconds:)),
            oldest < at.advanced(by: .minutes(-15))
        {
            let sentence = "the oldest notification waits for \(oldest.duration(to: at).text)"
            Finding(.down, sentence, runbook: .notificationsWaiting)
        }
        tables.apps.compactMap(\.revocationLimit).map { Finding(.down, $0, runbook: .revocationsHeld) }
        waitingGrants.findings(at: at, configuration.clientIDs)
        signedInQuarantine.map { Finding(.note, $0, runbook: .rowsRejected) }
        foreignIDs.finding
        ofRevocations
    }

    /// Notifications that Apple signed, and that siwatch did not believe for another reason.
    private var signedInQuarantine: String? {
        let signed = tables.backlog.quarantined.sorted { $0.key < $1.key }.filter {
            RejectionReason(rawValue: $0.key).map { $0.ring == nil && $0 != .poison } ?? false
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

    /// No siwatch seals under a key that another one lacks. Where the files hold the same keys in another order, each seals under another.
    var ofLaggingReplicas: [Finding] {
        let living = (replicas ?? []).filter { $0.isLiving(at: at) }.map(\.replica)
        return living.compactMap { replica in
            let held = replica.keyIDs ?? []
            let ahead = living.compactMap { other -> String? in
                guard let ring = other.keyIDs, let first = ring.first, first != held.first else { return nil }
                return !held.contains(first) || held.first.map { ring.contains($0) } ?? false ? first : nil
            }
            let first = Set(ahead)
            let lost = first.subtracting(held)
            guard !first.isEmpty else { return nil }
            let siwatch = "the siwatch \(replica.processID) on \(replica.host.printable)"
            let keys = (lost.isEmpty ? first : lost).sorted().map(\.printable).joined(separator: ", ")
            let sentence =
                lost.isEmpty
                ? "\(siwatch) lags: its key file does not begin with the sealing key \(keys), so no old key can be retired"
                : "\(siwatch) lags: it lacks the sealing key \(keys), so no siwatch seals under it"
            return Finding(.note, sentence, remedy: "the same key file there, and a reload")
        }
    }

    var ofDeliveries: [Finding] {
        (daemon?.deliveries ?? []).flatMap(findings(of:))
    }

    @FindingList private func findings(of delivery: DeliveryState) -> [Finding] {
        let (name, replay) = (delivery.name.printable, "siwatch delivery replay \(delivery.name.shellQuoted.printable)")
        if let outage = delivery.outage {
            // A receiver that is restarted is no trouble.
            let isLong = outage.since < at.advanced(by: .minutes(-15))
            let sentence = "\(name) takes no webhooks since \(outage.since.text): \(outage.reason.printable)"
            let test = "siwatch delivery test \(delivery.name.shellQuoted.printable) says what comes back"
            let remedy = "\(test); a new secret or ca_file takes a reload, a new url a restart"
            Finding(isLong ? .down : .degraded, sentence, remedy: remedy, runbook: .deliveryBehind)
        }
        if let since = delivery.position?.stoppedAt {
            let sentence = "\(name) gets no webhooks since \(since.text), because it said that it is gone (410)"
            Finding(.down, sentence, remedy: replay, runbook: .deliveryBehind)
        }
        if let waiting = delivery.position?.waiting, waiting > 0 {
            let sentence = "\(name) did not take \(waiting.counted("webhook")) that siwatch sends again"
            let isOld = delivery.position?.oldestWaiting.map { $0 < at.advanced(by: .hours(-1)) } ?? false
            Finding(isOld ? .degraded : .note, sentence, remedy: replay, runbook: isOld ? .deliveryRefused : nil)
        }
        if let dead = delivery.position?.dead, dead > 0 {
            let sentence = "\(name) has not taken \(dead.counted("webhook")) for days, and gets them no more"
            Finding(.degraded, sentence, remedy: replay, runbook: .deliveryRefused)
        }
    }

    @FindingList private var ofRevocations: [Finding] {
        let waiting = tables.backlog.waitingRevocations
        if waiting.requests > 0 {
            let requests = waiting.requests.counted("request to revoke waits", "requests to revoke wait")
            let oldest = waiting.oldest.map { ", the oldest for \($0.duration(to: at).text)" } ?? ""
            let sentence = "\(requests), with \(waiting.tokens.counted("token")) at work\(oldest)"
            let isOld = waiting.oldest.map { $0 < at.advanced(by: .hours(-1)) } ?? false
            Finding(isOld ? .degraded : .note, sentence, runbook: isOld ? .revocationsUnproved : nil)
            if waiting.stillAccepted > 0 {
                let sentence = "Apple still accepts \(waiting.stillAccepted.counted("token")) that it was asked to revoke"
                Finding(.note, sentence, runbook: .revocationsUnproved)
            }
            if waiting.unbelieved > 0 {
                let tokens = waiting.unbelieved.counted("token")
                Finding(.note, "Apple rejected \(tokens) before the revocation, which is not believed yet")
            }
        }
        if waiting.newestWithoutToken >= 5, waiting.newestWithoutToken * 5 >= waiting.newest * 4 {
            let share = "\(waiting.newestWithoutToken) of the last \(waiting.newest) requests to revoke"
            Finding(.note, "\(share) found no token: a request names the user by Apple's sub")
        }
    }
}

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
        let runbook = Runbook.queueHeadStuck
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

/// How many of the newest sign-ins name a user whose id does not look like Apple's. No notification of Apple's meets such a user.
struct ForeignIDs {
    var signIns = 0
    var foreign = 0

    /// A test or two among many sign-ins are no trouble. Nil if there are none.
    var finding: Finding? {
        guard foreign > 0 else { return nil }
        let share = "\(foreign.grouped) of the newest \(signIns.counted("sign-in")) (\(max(foreign * 100 / signIns, 1)) %)"
        let sentence = "\(share) have a user_id that does not look like Apple's (\(AppleUserID.example)): no withdrawal meets them"
        let remedy = "let the backend tell the sub of the id_token; siwatch forget ID erases a wrong one"
        return Finding(foreign < 5 || foreign * 10 < signIns ? .note : .degraded, sentence, remedy: remedy)
    }
}
