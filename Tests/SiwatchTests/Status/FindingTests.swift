// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import NIOConcurrencyHelpers
import Testing

@testable import CredentialCore
@testable import siwatch

/// Findings that come with time, which no test waits for.
struct FindingTests {
    private let clock = TestClock()

    private func unread() throws -> StatusReport {
        let configuration = try Configuration(parsing: ConfigurationTests.app, from: "siwatch.toml")
        var report = try StatusReport(unreadOf: configuration, at: clock.now)
        report.sqlite = "3.51.3"
        return report
    }

    private func finding(_ report: StatusReport, _ words: String) -> Finding? { report.findings.first { $0.sentence.contains(words) } }

    @Test func lostAnswersArePagedAndABackendsMistakesWait() throws {
        var report = try unread()
        report.tables.rejectedSignIns = [RejectedSignIns(clientID: "app", reason: "answer_lost", rejected: 5, settled: 20)]
        let lost = try #require(finding(report, "app: 5 of the last 20 sign-ins within an hour came to nothing, as answer_lost"))
        #expect(lost.severity == .down && lost.runbook == "siwatchcodesexpired")
        report.tables.rejectedSignIns[0].reason = "code_used"
        #expect(finding(report, "came to nothing")?.severity == .degraded)
    }

    /// The backend names users by ids of its own, and gets 202.
    @Test func requestsThatFindNoTokenAreSaid() throws {
        var report = try unread()
        (report.tables.backlog.waitingRevocations.newest, report.tables.backlog.waitingRevocations.newestWithoutToken) = (6, 5)
        #expect(finding(report, "5 of the last 6 requests to revoke found no token")?.severity == .note)
        report.tables.backlog.waitingRevocations.newest = 7
        #expect(finding(report, "requests to revoke") == nil)
    }

    /// However few notifications come.
    @Test func aSilenceOfTenTimesTheUsualIsAFinding() throws {
        var report = try unread()
        let newest = clock.now
        func findAfter(_ silence: Duration, of count: Int, each gap: Duration) -> Finding? {
            report.tables.notifications = (0..<count).map { newest.advanced(by: .zero - gap * $0) }
            report.at = newest.advanced(by: silence)
            return finding(report, "Apple's last notification came")
        }
        #expect(findAfter(.days(9), of: 20, each: .days(1)) == nil)
        let found = try #require(findAfter(.days(11), of: 20, each: .days(1)))
        #expect(found.severity == .degraded && found.runbook == "siwatchnotificationslate")
        #expect(findAfter(.hours(23), of: 100, each: .seconds(60)) == nil, "people sleep")
        #expect(findAfter(.hours(25), of: 100, each: .seconds(60)) != nil)
        #expect(findAfter(.days(300), of: 9, each: .days(1)) == nil, "nobody knows yet what is usual")
    }

    @Test func twoLooksInARowFindThatNothingArrives() async throws {
        let answer = NIOLockedValueBox(Finding(.note, "good"))
        let watch = IntakeWatch(clock: clock.wallClock) { answer.withLockedValue(\.self) }
        await watch.look()
        answer.withLockedValue { $0 = Finding(.down, "nothing takes a POST at this path: 404") }
        let since = clock.now
        await watch.look()
        #expect(watch.obstacle == nil, "a receiver is restarted now and then")
        clock.advance(by: .minutes(5))
        await watch.look()
        #expect(watch.obstacle == "nothing takes a POST at this path: 404, since \(since.text)")
        answer.withLockedValue { $0 = Finding(.note, "good") }
        await watch.look()
        #expect(watch.obstacle == nil)
    }

    @Test func aKeyThatHasSealedTooMuchIsAFinding() throws {
        var report = try unread()
        report.tables.sealed.countedAt = .earliest
        report.tables.sealed.keys = ["0a0b0c0d": SealedCounts.OfKey(blobs: 12, seals: SealedCounts.mostSeals - 1)]
        #expect(finding(report, "sealing key") == nil)
        report.tables.sealed.keys["0a0b0c0d"]?.seals += 1
        let found = try #require(finding(report, "the sealing key 0a0b0c0d has sealed 2,147,483,648 values"))
        #expect(found.severity == .degraded && found.remedy == "siwatch secret rotate")
        #expect(report.lines.contains { $0.hasSuffix("  12 values under it, 2,147,483,648 seals so far") })
    }

    @Test func aReplicaWithTheKeysInAnotherOrderLags() throws {
        var report = try unread()
        func lags(_ rings: [String]...) -> [String] {
            let now = report.at
            report.replicas = rings.enumerated().map { number, ring in
                var replica = Replica(host: "h\(number)", processID: 7, version: "1")
                replica.keyIDs = ring
                return ReplicaStatus(name: "r\(number)", replica: replica, startedAt: now, seenAt: now, lanes: [])
            }
            return report.ofLaggingReplicas.map(\.sentence)
        }
        #expect(lags(["new", "old"], ["new"]) == [])
        let lacking = "the siwatch 7 on h1 lags: it lacks the sealing key new, so no siwatch seals under it"
        #expect(lags(["new", "old"], ["old"]) == [lacking])
        let words = "lags: its key file does not begin with the sealing key"
        let found = lags(["a", "b"], ["b", "a"])
        #expect(found.count == 2 && found[0].contains("h0 \(words) b") && found[1].contains("h1 \(words) a"))
    }

    @Test func copiesThatWereNeverMadeAreAFindingAfterTwoDays() throws {
        var report = try unread()
        report.runsSince = clock.now
        report.at = clock.now.advanced(by: .hours(47))
        #expect(finding(report, "siwatch backup") == nil)
        report.installedAt = clock.now.advanced(by: .hours(-2))
        #expect(finding(report, "siwatch backup") != nil, "a restart does not begin anew")
        report.installedAt = nil
        report.at = clock.now.advanced(by: .hours(49))
        let never = try #require(finding(report, "siwatch backup has never written a copy"))
        #expect(never.severity == .degraded && never.runbook == "siwatchbackupold" && never.remedy?.contains("backup --note") == true)
        report.tables.backedUpAt = clock.now.advanced(by: .hours(2))
        #expect(finding(report, "siwatch backup") == nil)
        report.at = clock.now.advanced(by: .hours(51))
        #expect(finding(report, "siwatch backup last wrote a copy") != nil)
    }
}

struct HTMLTests {
    @Test func textFromElsewhereIsEscapedEverywhere() {
        let text = "<b a=\"1\" b='2'>&\u{202e}\u{1b}[0m"
        let escaped = "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;\\u{202e}\\u{1b}[0m"
        let html: HTML = "<p title=\"\(text)\">\(text)</p>"
        #expect(html.markup == "<p title=\"\(escaped)\">\(escaped)</p>")
        let list: HTML = "<ul>\([html, "<li>"])</ul>"
        #expect(list.markup == "<ul>\(html.markup)\n<li></ul>")
    }

    /// The text and the page say the same rows.
    @Test func eachRowOfTheStatusIsInTheTextAndOnThePage() throws {
        let configuration = try Configuration(parsing: ConfigurationTests.app, from: "siwatch.toml")
        var report = try StatusReport(unreadOf: configuration, at: Timestamp(seconds: 1_800_000_000))
        report.lockHolder = "<b>\u{1b}[0m"
        report.tables.queues = [QueueStatus(queue: "grant", depth: 3, oldest: nil)]
        report.tables.apps = [AppStatus(app: "first"), AppStatus(app: "second")]
        report.tables.credentials = [CredentialCount(app: "first", state: "authorized", count: 1_234_567)]
        let (lines, page) = (report.lines, HTMLPage(report).text)
        for section in report.sections {
            #expect(lines.contains(section.title) && page.contains(">\(section.title)</h2>"))
            for (name, value) in section.rows where name != "lock" {
                #expect(lines.contains { $0.hasPrefix("  \(name) ") && $0.hasSuffix("  \(value)") }, "\(name)")
                #expect(page.contains("<dt>\(name.replacing("'", with: "&#39;"))</dt><dd>\(value)</dd>"), "\(name)")
            }
        }
        #expect(lines.contains { $0.hasSuffix("<b>\\u{1b}[0m works alone on the file") })
        #expect(page.contains("&lt;b&gt;\\u{1b}[0m works alone on the file"))
        #expect(lines.contains { $0.contains(/^  authorized  1,234,567$/) })
    }
}
