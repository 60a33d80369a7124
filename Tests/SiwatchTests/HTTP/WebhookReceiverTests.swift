// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
import Testing

/// A receiver that is away, refuses webhooks or limits their rate.
@Suite(.timeLimit(.minutes(10))) struct WebhookReceiverTests {
    /// Lets the receiver answer each webhook by its number, from 1.
    private func answer(retryAfter: String? = nil, _ status: @escaping @Sendable (Int) -> Int) {
        let asked = NIOLockedValueBox(0)
        receiver.answer(retryAfter: retryAfter) { _ in
            asked.withLockedValue { asked in
                asked += 1
                return status(asked)
            }
        }
    }

    /// Waits until siwatch has sent each change, and nothing waits for another try.
    private func untilAllIsSent() async throws {
        try await site.backend.until("SELECT MAX(id) - COALESCE((SELECT MAX(cursor) FROM delivery), 0) FROM credential_change", is: 0)
        try await site.backend.until("SELECT COUNT(*) FROM delivery_retry", is: 0)
    }

    @Test(.receiver()) func oneBadChangeBlocksNobody() async throws {
        let people = try await site.apple.signIn(4)
        let bad = people[0].userID
        let isRefused = NIOLockedValueBox(false)
        receiver.answer { hook in
            isRefused.withLockedValue { isRefused in
                if !hook.body.contains(bad) || isRefused { return 204 }
                isRefused = true
                return 302
            }
        }
        try await site.settle(people)
        _ = try await receiver.hooks(count: 4)
        try await site.settle(try await site.apple.signIn(2))
        #expect(try await receiver.hooks(count: 6).count >= 6)
        // The second try comes five seconds after the first, under the same id.
        var tries: [HookReceiver.Hook] = []
        try await eventually {
            tries = receiver.hooks.filter { $0.body.contains(bad) }
            return tries.count >= 2
        }
        #expect(Set(tries.map(\.id)).count == 1)
        try await site.backend.until("SELECT COUNT(*) FROM delivery_retry", is: 0)
        #expect(!receiver.hooks.contains { $0.path == "/elsewhere" }, "a redirect is not followed")
    }

    /// An outage of the receiver loses nothing and writes nothing. 410 stops the delivery until somebody lets it go on.
    @Test(.receiver()) func aReceiverThatIsAwayIsWaitedFor() async throws {
        receiver.answer { _ in 503 }
        try await site.settle(try await site.apple.signIn(3))
        #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"") != nil)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM delivery_retry") == 0)
        receiver.answer { _ in 200 }
        #expect(await daemon.line(containing: "\"event\":\"delivery_recovered\"") != nil)
        #expect(Set(try await receiver.hooks(count: 3).map(\.id)).count == 3)
        receiver.answer { _ in 410 }
        try await site.settle(try await site.apple.signIn(1))
        #expect(await daemon.line(containing: "\"event\":\"delivery_stopped\"") != nil)
        try await site.folder.expect("delivery test hook", 1)
        receiver.answer { _ in 200 }
        let stopped = /delivery hook +2 changes behind, 0 wait for another try, 0 are dead, stopped since/
        #expect(try await site.folder.siwatch("status").output.contains { $0.contains(stopped) })
        try await site.folder.succeed("delivery", "replay", "hook")
        try await untilAllIsSent()
    }

    /// 502 is the proxy's word for a backend that is away, and a mistyped path or another secret refuses all. siwatch says so at once,
    /// gives nothing up, and goes on by itself.
    @Test(.receiver(listen: "127.0.0.1:0")) func aReceiverThatRefusesEverythingIsToldOfAndWaitedFor() async throws {
        let redirect = "status 302, a redirect that siwatch does not follow"
        for (round, (status, reason)) in [(502, "status 502"), (302, redirect), (404, "status 404")].enumerated() {
            receiver.answer { _ in status }
            try await site.settle(try await site.apple.signIn(5))
            #expect(await daemon.line(containing: "\"reason\":\"\(reason)") != nil)
            if status == 502 { #expect(try await site.backend.int("SELECT COUNT(*) FROM delivery_retry") == 0) }
            try await pages.expect("status.json", shows: "takes no webhooks since", "siwatchdeliverybehind", "\"health\" : \"degraded\"")
            if status == 302 { try await site.folder.expect("delivery test hook", 1, "\(reason): is it the URL of the receiver") }
            receiver.answer { _ in 200 }
            try await eventually { daemon.output.filter { $0.contains("\"event\":\"delivery_recovered\"") }.count > round }
            // Until three were refused, each may have been at fault alone.
            if status != 502 { try await site.folder.succeed("delivery", "replay", "hook") }
            try await untilAllIsSent()
            #expect(Set(receiver.hooks.filter { !$0.body.contains("siwatch.test") }.map(\.id)).count == 5 * (round + 1))
            #expect(receiver.hooks.allSatisfy { $0.path == "/hook?from=siwatch" })
            try await pages.expect("status.json", shows: "\"health\"", not: "takes no webhooks since")
        }
    }

    /// What comes after its last good answer keeps its place. Only what was under way beside that answer waits for a try of its own.
    @Test(.receiver(runs: false)) func aReceiverThatLeavesInMidPageFindsTheRestInPlace() async throws {
        let people = try await site.apple.signIn(60)
        // All changes stand in one page, because the delivery begins with the second siwatch.
        receiver.answer { _ in 503 }
        try await site.daemon { daemon in
            try await site.settle(people)
            #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"") != nil)
        }
        answer { $0 <= 10 ? 204 : 503 }
        try await site.daemon { daemon in
            #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"") != nil)
            let aside = try await site.backend.int("SELECT COUNT(*) FROM delivery_retry")
            #expect(aside < 16, "\(aside) changes wait for a try of their own")
            receiver.answer { _ in 204 }
            try await site.backend.until("SELECT MAX(id) - (SELECT cursor FROM delivery) FROM credential_change", is: 0)
            // A try that found it away comes again after up to five minutes.
            try await site.folder.succeed("delivery", "replay", "hook")
            try await untilAllIsSent()
            #expect(Set(receiver.hooks.map(\.id)).count == 60)
        }
    }

    /// 429 is no word about a change, so none climbs the schedule of hours.
    @Test(.receiver()) func aReceiverThatLimitsItsRateGetsAllSoon() async throws {
        answer(retryAfter: "1") { $0.isMultiple(of: 5) ? 429 : 204 }
        try await site.settle(try await site.apple.signIn(40))
        _ = try await receiver.hooks(count: 40)
        #expect(try await site.backend.int("SELECT COALESCE(MAX(failures), 0) FROM delivery_retry") == 0)
        try await untilAllIsSent()
    }

    /// Otherwise a receiver could have siwatch ask it without a pause.
    @Test(.receiver(onEach: [.file])) func aReceiverThatAsksForNoWaitIsLeftAloneForFiveSeconds() async throws {
        receiver.answer(retryAfter: "0") { _ in 503 }
        try await site.settle(try await site.apple.signIn(1))
        try await eventually { receiver.hooks.count >= 2 }
        receiver.answer { _ in 200 }
        #expect(await daemon.line(containing: "\"event\":\"delivery_recovered\"") != nil)
        let times = receiver.hooks.compactMap { Int($0.timestamp) }
        #expect(times.count >= 3 && Set(receiver.hooks.map(\.id)).count == 1, "\(receiver.hooks)")
        // A wall clock that is slewed shows a little less than five seconds.
        for (earlier, later) in zip(times, times.dropFirst()) { #expect(later - earlier >= 4, "\(times)") }
    }

    /// What is under way has been sent as before the reload. The next try does not wait for the time that the receiver asked for then.
    @Test(.receiver()) func aReloadWhileAReceiverAnswersEndsThePauseAfterIt() async throws {
        let (arrivals, reloads) = (AsyncStream.makeStream(of: Void.self), AsyncStream.makeStream(of: Void.self))
        answer(retryAfter: "600") { $0 == 1 ? 429 : 200 }
        receiver.delay {
            arrivals.continuation.yield()
            for await _ in reloads.stream { break }
        }
        try await site.settle(try await site.apple.signIn(1))
        for await _ in arrivals.stream { break }
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: "\"event\":\"reloaded\"") != nil)
        receiver.delay {}
        reloads.continuation.finish()
        try await site.backend.until("SELECT MAX(id) - (SELECT cursor FROM delivery) FROM credential_change", is: 0)
        #expect(receiver.hooks.count == 2)
    }

    /// A change that a receiver refuses alone is sent again by itself. Operators hear of it once it is a day old.
    @Test(.receiver(listen: "127.0.0.1:0")) func whatAReceiverHasNotTakenIsOnThePage() async throws {
        try await site.settle(try await site.apple.signIn(2))
        func row(waiting: Int) -> String { "<dt>delivery hook</dt><dd>0 changes behind, \(waiting) wait for another try, 0 are dead</dd>" }
        try await pages.expect("", shows: row(waiting: 0), accept: "text/html")

        let people = try await site.apple.signIn(3)
        receiver.answer { [refused = people[0].userID] in $0.body.contains(refused) ? 400 : 200 }
        try await site.settle(people)
        let waiting = "hook did not take 1 webhook that siwatch sends again"
        let well = "<h1 id=\"verdict\">All is well.</h1>"
        try await pages.expect("", shows: waiting, row(waiting: 1), well, not: "siwatchdeliveryrefused", accept: "text/html")

        try await site.backend.execute("UPDATE credential_change SET recorded_at = recorded_at - 90000000")
        try await pages.expect("", shows: "siwatchdeliveryrefused", "<h1 id=\"verdict\">\(waiting)", accept: "text/html")
    }
}
