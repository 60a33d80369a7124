// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Crypto
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
import Testing

/// Webhooks of the real daemon at a real receiver, on both stores.
@Suite(.timeLimit(.minutes(10))) struct WebhookTests {
    private func signature(of hook: HookReceiver.Hook, by secret: String) throws -> String {
        let key = SymmetricKey(data: try #require(Data(base64Encoded: String(secret.dropFirst(6)))))
        let code = HMAC<SHA256>.authenticationCode(for: Data("\(hook.id).\(hook.timestamp).\(hook.body)".utf8), using: key)
        return "v1,\(Data(code).base64EncodedString())"
    }

    @Test(.receiver("types = [\"credential.revoked\", \"credential.authorized\"]")) func eachChangeIsToldWithItsSignature() async throws {
        let people = try await site.apple.signIn(3)
        try await site.settle(people)
        try await site.tell(try await site.apple.notify(RevokeConsent(), users: [people[0].userID]))
        let hooks = try await receiver.hooks(count: 4)
        #expect(hooks.count == 4 && hooks.allSatisfy { $0.path == "/hook?from=siwatch" }, "\(hooks)")
        let revoked = try #require(hooks.first { $0.body.contains("credential.revoked") })
        let changedAt = try await site.backend.int("SELECT changed_at FROM user_state WHERE state = 'revoked'")
        #expect(revoked.body.contains("\"ends_sessions_before\":\(changedAt),"), "\(revoked.body)")
        #expect(!hooks.contains { $0.body.contains("@") || $0.body.utf8.count > 1024 })
        for hook in hooks {
            let expected = try signature(of: hook, by: Hook.secret)
            #expect(hook.signatures == expected)
            #expect(abs((Double(hook.timestamp) ?? 0) - Date.now.timeIntervalSince1970) < 60)
        }
        try await site.folder.succeed("delivery", "test", "hook")
        #expect(receiver.hooks.last?.body.contains("siwatch.test") == true)
        let status = try await site.folder.siwatch("status").output
        #expect(status.contains { $0.contains(/^  delivery hook +0 changes behind, 0 wait for another try, 0 are dead$/) }, "\(status)")
        #expect(!daemon.output.joined().contains("delivery_failed"))
    }

    /// Under another name a delivery begins anew. siwatch says so, and an operator hands over what it had still to send.
    @Test(.receiver(listen: "127.0.0.1:0", runs: false)) func aRenamedDeliveryGoesOnWhereItWas() async throws {
        receiver.answer { _ in 503 }
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(3))
            #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"") != nil)
        }
        let taken = NIOLockedValueBox<[String]>([])
        receiver.answer { hook in
            taken.withLockedValue { $0.append(hook.id) }
            return 200
        }
        try site.folder.edit("name = \"hook\"", "name = \"renamed\"")
        try await site.daemon { daemon in
            let line = await daemon.line(containing: "\"event\":\"delivery_unconfigured\"")
            let advice = "siwatch rename delivery hook NEW"
            #expect(line?.contains("6 changes behind") == true && line?.contains(advice) == true, "\(line ?? "")")
            let row = /^  delivery hook +6 changes behind, 0 wait for another try, 0 are dead, not in the configuration$/
            let list = try await site.folder.siwatch("status").output
            #expect(list.contains { $0.contains(row) }, "\(list)")
            let sentence = "nobody sends the webhooks of hook, which is not in the configuration: 6 changes"
            try await OperationsPages(of: daemon).expect("", shows: sentence)
            try await site.settle(try await site.apple.signIn(1))
            _ = try await receiver.hooks(count: 4)
            try await site.folder.expect("rename delivery hook renamed", 69)
            // On a file, the siwatch at work may have any delivery.
            if site.schema == nil { try await site.folder.expect("delivery drop hook", 69) }
        }
        #expect(taken.withLockedValue(\.count) == 1)
        try await site.folder.succeed("rename", "delivery", "hook", "renamed")
        try await site.folder.expect("rename delivery hook renamed", 1)
        try await site.daemon { daemon in
            let newest = try await site.backend.int("SELECT MAX(id) FROM credential_change")
            try await site.backend.until("SELECT MAX(cursor) FROM delivery", is: newest)
            // The fourth came twice at least, under one id.
            #expect(taken.withLockedValue { Set($0).count } == 4 && taken.withLockedValue(\.count) >= 5)
            #expect(!daemon.output.joined().contains("delivery_unconfigured"))
        }
    }

    /// The one that keeps house has no such delivery.
    @Test(.receiver(onEach: [.server], listen: "127.0.0.1:0", runs: false)) func ofSeveralSiwatchOneThatHasTheDeliverySends() async throws {
        let other = try site.folder.copy()
        defer { other.remove() }
        let text = try String(contentsOfFile: other.configurationPath, encoding: .utf8)
        let table = try #require(text.components(separatedBy: "[[delivery]]").last?.components(separatedBy: "[database]").first)
        try other.edit("[[delivery]]\(table)", "")
        try await other.withDaemon { _ in
            try await site.daemon { daemon in
                try await site.settle(try await site.apple.signIn(1))
                _ = try await receiver.hooks(count: 1)
                try await OperationsPages(of: daemon).expect("metrics", shows: #"siwatch_delivery_behind{delivery="hook"} 0"#)
                let senders = try await site.folder.siwatch("status").output.filter { $0.contains(", sends webhooks to hook, ") }
                #expect(senders.count == 1 && senders.allSatisfy { $0.contains(" \(daemon.identifier)  ") }, "\(senders)")
                try await other.expect("delivery drop hook", 69, "has the delivery hook")
                // What somebody deletes by hand is not missed in silence.
                try await site.backend.execute("DELETE FROM delivery")
                #expect(await daemon.line(containing: "\"event\":\"delivery_skipped\"") != nil)
                try await site.settle(try await site.apple.signIn(1))
                _ = try await receiver.hooks(count: 2)
            }
            try await other.succeed("delivery", "drop", "hook")
        }
    }

    /// Each would pass over what it leaves out. During a restart one after the other that is so for a moment, so nobody is refused.
    @Test(.receiver(onEach: [.server])) func aDeliveryThatDiffersAmongSeveralIsAFinding() async throws {
        let other = try site.folder.copy()
        defer { other.remove() }
        func findings() async throws -> [String] {
            try await site.folder.siwatch("status").output.filter { $0.contains("not every siwatch has the same delivery hook") }
        }
        let none = try await other.withDaemon { _ in try await findings() }
        #expect(none == [])
        try other.edit("credential.authorized", "credential.revoked")
        let different = try await other.withDaemon { _ in try await findings() }
        #expect(different.count == 1)
        #expect(try await findings() == [])
    }

    /// Who no longer sends a delivery reports nothing of it, and what it knew last is soon wrong.
    @Test(.receiver(onEach: [.server], listen: "127.0.0.1:0")) func whoLosesADeliveryReportsItNoMore() async throws {
        try await site.settle(try await site.apple.signIn(1))
        _ = try await receiver.hooks(count: 1)
        let gauge = #"siwatch_delivery_behind{delivery="hook"}"#
        try await pages.expect("metrics", shows: gauge)
        try await site.backend.execute("UPDATE lane SET owner = 'another', until = until + 600000 WHERE app LIKE 'webhooks%'")
        try await pages.expect("metrics", shows: "siwatch_", not: gauge)
    }

    /// It sends no webhooks, so it keeps nobody else from sending them.
    @Test(.receiver(onEach: [.server], runs: false)) func aRunOnceTakesNoDelivery() async throws {
        let run = try site.folder.start("run", "--once")
        // Of the app and of the maintenance.
        try await site.backend.until("SELECT COUNT(*) FROM lane WHERE owner <> ''", is: 2)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM lane WHERE app LIKE 'webhooks%'") == 0)
        #expect(await run.exit() == 0)
    }

    /// A change that waits goes out with the secrets of the reload. It goes to the old URL, because another one waits for a restart.
    @Test(.receiver(runs: false)) func aReloadSignsWhatWaitsWithItsSecrets() async throws {
        let file = site.folder.url.appending(path: "new.whsec")
        #expect(try await CommandCall.siwatch(["secret", "new", "webhook", file.path]).status == 0)
        let secrets = [Hook.secret, try String(contentsOf: file, encoding: .utf8).trimmingCharacters(in: .newlines)]
        receiver.answer { _ in 503 }
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(1))
            #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"") != nil)
            try site.folder.edit("secret_files = [\"hook.whsec\"]", "secret_files = [\"hook.whsec\", \"new.whsec\"]")
            try site.folder.edit("/hook?", "/moved?")
            daemon.signal(SIGHUP)
            let line = await daemon.line(containing: "\"event\":\"reload_needs_restart\"")
            #expect(line?.contains("\"reason\":\"delivery[0].url\"") == true, "\(line ?? "")")
            // A round that began before the reload has the old secret alone.
            try await eventually { receiver.hooks.last?.signatures.contains(" ") == true }
            receiver.answer { _ in 200 }
            #expect(await daemon.line(containing: "\"event\":\"delivery_recovered\"") != nil)
            let taken = try #require(receiver.hooks.last)
            let expected = try secrets.map { try signature(of: taken, by: $0) }.joined(separator: " ")
            #expect(taken.signatures == expected)
            #expect(Set(receiver.hooks.map(\.id)).count == 1 && receiver.hooks.allSatisfy { $0.path == "/hook?from=siwatch" })
        }
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(1))
            #expect(try await receiver.hooks(count: 2).last?.path == "/moved?from=siwatch")
        }
    }
}
