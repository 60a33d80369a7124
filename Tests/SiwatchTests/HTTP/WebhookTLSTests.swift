// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import NIOConcurrencyHelpers
import NIOSSL
import Testing
import Webhooks

@testable import siwatch

/// Webhooks of the real daemon at a receiver that speaks TLS.
@Suite(.timeLimit(.minutes(10))) struct WebhookTLSTests {
    private static let words = "no TLS 1.2 connection with a valid certificate"

    /// The authorities that the host trusts. siwatch knows no others.
    private static let trusted = "/etc/ssl/certs/ca-certificates.crt"
    private static let canTrust = Servant.canMount && FileManager.default.fileExists(atPath: trusted)

    /// A site whose one receiver shows this certificate.
    private func withReceiver(
        of folder: WatchedFolder,
        _ certificate: NIOSSLContext,
        listen: String = "",
        _ more: String = "",
        _ body: (Site, HookReceiver) async throws -> Void
    ) async throws {
        let receiver = HookReceiver()
        try await receiver.serve(tls: certificate) { port in
            let table = try Hook.table(in: folder, scheme: "https", port: port, "types = [\"credential.authorized\"]\n\(more)")
            try await Site.with(folder, listen: listen, table) { site in try await body(site, receiver) }
        }
    }

    @Test(.enabled(if: canTrust)) func aReceiverGetsWebhooksAsLongAsItsCertificateIsValid() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let authority = try await CertificateAuthority(in: folder)
        let valid = try await authority.issue()
        let invalid = [try await authority.issue(days: -1), try await authority.issue(for: "DNS:example.com")]
        try await withReceiver(of: folder, valid, listen: "127.0.0.1:0") { site, receiver in
            try await withDaemon(in: folder, trusting: authority) { daemon in
                let pages = try await OperationsPages(of: daemon)
                try await site.settle(try await site.apple.signIn(1))
                #expect(try await receiver.hooks(count: 1).count == 1)
                for (index, certificate) in invalid.enumerated() {
                    receiver.show(certificate)
                    try await site.settle(try await site.apple.signIn(1))
                    try await pages.expect("status.json", shows: "takes no webhooks since", Self.words)
                    #expect(Set(receiver.hooks.map(\.id)).count == index + 1)
                    receiver.show(valid)
                    #expect(Set(try await receiver.hooks(count: index + 2).map(\.id)).count == index + 2)
                    try await pages.expect("status.json", shows: "\"health\"", not: "takes no webhooks since")
                }
            }
        }
    }

    /// Without a file the host's authorities count. One that the file does not name is not trusted, until a reload adds it.
    @Test func aDeliveryTrustsTheAuthoritiesOfItsFile() async throws {
        let (folder, elsewhere) = (try WatchedFolder(), try WatchedFolder())
        defer { for each in [folder, elsewhere] { each.remove() } }
        let (authority, other) = (try await CertificateAuthority(in: folder), try await CertificateAuthority(in: elsewhere))
        let pems = try [other, authority].map { try String(contentsOfFile: $0.certificatePath, encoding: .utf8) }
        try pems.joined().write(to: folder.url.appending(path: "both.pem"), atomically: true, encoding: .utf8)
        try pems[0].write(to: folder.url.appending(path: "other.pem"), atomically: true, encoding: .utf8)
        try await withReceiver(of: folder, try await authority.issue(), listen: "127.0.0.1:0") { site, receiver in
            _ = try await site.daemon { daemon in
                try await site.settle(try await site.apple.signIn(1))
                #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"")?.contains(Self.words) == true)
                let pages = try await OperationsPages(of: daemon)
                try await pages.expect("status.json", shows: "takes no webhooks since", Self.words)
                // The change waits for the receiver, and for no try of its own.
                #expect(try await site.backend.int("SELECT COUNT(*) FROM delivery_retry") == 0)
                try await folder.expect("delivery test hook", 1, Self.words)
                try folder.edit("types =", "ca_file = \"other.pem\"\ntypes =")
                daemon.signal(SIGHUP)
                #expect(await daemon.line(containing: "\"event\":\"reloaded\"") != nil)
                try await folder.expect("delivery test hook", 1, Self.words)
                #expect(receiver.hooks.isEmpty)
                try folder.edit("other.pem", "both.pem")
                daemon.signal(SIGHUP)
                #expect(await daemon.line(containing: "\"event\":\"delivery_recovered\"") != nil)
                #expect(Set(receiver.hooks.map(\.id)).count == 1)
                try await folder.succeed("delivery", "test", "hook")
                #expect(!daemon.output.joined().contains("reload_needs_restart"), "\(daemon.output)")
            }
        }
    }

    @Test(.enabled(if: canTrust)) func aFileOfAuthoritiesStandsInPlaceOfTheHosts() async throws {
        let (folder, elsewhere) = (try WatchedFolder(), try WatchedFolder())
        defer { for each in [folder, elsewhere] { each.remove() } }
        let (authority, other) = (try await CertificateAuthority(in: folder), try await CertificateAuthority(in: elsewhere))
        try await withReceiver(of: folder, try await authority.issue(), "ca_file = \"\(other.certificatePath)\"") { site, receiver in
            try await withDaemon(in: folder, trusting: authority) { daemon in
                try await site.settle(try await site.apple.signIn(1))
                #expect(await daemon.line(containing: "\"event\":\"delivery_failed\"")?.contains(Self.words) == true)
                #expect(receiver.hooks.isEmpty)
            }
        }
    }

    @Test func checkNamesAFileThatHoldsNoAuthority() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let path = try await CertificateAuthority(in: folder).certificatePath
        let table = try Hook.table(in: folder, scheme: "https", port: 9, "ca_file = \"authority.pem\"")
        try await Site.with(folder, table) { _ in
            func check(_ expected: Int32, _ words: String) async throws {
                try await folder.expect("doctor --before-start", expected, words, not: "not to be quoted")
            }
            try await check(0, "  delivery hook: https://127.0.0.1:9/hook; certified by an authority in \(path)")
            try folder.edit("https://127.0.0.1:9/", "http://127.0.0.1:9/")
            try await check(78, "belongs to an https:// URL, and this url is none")
            try folder.edit("http://127.0.0.1:9/", "https://127.0.0.1:9/")
            try #require(chmod(path, 0o666) == 0)
            try await check(78, "delivery[0].ca_file: \(path) can be changed by everybody on this host")
            try #require(chmod(path, 0o644) == 0)
            for text in ["", "not to be quoted", "-----BEGIN CERTIFICATE-----\nnot to be quoted\n-----END CERTIFICATE-----\n"] {
                try Data(text.utf8).write(to: URL(filePath: path))
                try await check(78, "delivery[0].ca_file: \(path) holds no certificate in PEM")
            }
            try FileManager.default.removeItem(atPath: path)
            try await check(78, "delivery[0].ca_file: \(path) cannot be read: No such file or directory")
        }
    }

    /// Runs a daemon on a host that trusts the authority. The mount hides the host's own file from this daemon alone.
    private func withDaemon(
        in folder: WatchedFolder,
        trusting authority: CertificateAuthority,
        _ body: (ChildProcess) async throws -> Void
    ) async throws {
        let daemon = try Servant.start("run", in: folder, mounting: "mount --bind \"$0\" \(Self.trusted)", at: authority.certificatePath)
        do {
            try #require(await daemon.line(containing: "siwatch is ready") != nil, "\(daemon.output)")
            try await body(daemon)
        } catch {
            daemon.signal(SIGKILL)
            await daemon.exit()
            throw error
        }
        await daemon.end(by: SIGTERM)
    }
}

/// Where webhooks go if a host has several addresses.
@Suite(.timeLimit(.minutes(5))) struct ReceiverSourceTests {
    private let message = WebhookMessage(test: .earliest, nonce: 1)

    private func configured(port: Int) throws -> (Configuration.Delivery, DeliveryKeys) {
        var delivery = Configuration.Delivery()
        delivery.url = try #require(URL(string: "http://receiver.test:\(port)/"))
        return (delivery, DeliveryKeys(secrets: [try #require(WebhookSecret(Secret(Hook.secret)))]))
    }

    private func answer(of source: ReceiverSource) async throws -> Receiver.Answer {
        try await source.receiver().send(message, at: .earliest)
    }

    /// Such as `localhost`, if the backend listens on one of its two addresses.
    @Test func anAddressThatTakesNoConnectionIsLeftForTheNext() async throws {
        try await HookReceiver().serve { port in
            let (delivery, keys) = try configured(port: port)
            let source = ReceiverSource(delivery, keys) { _, _ in ["127.0.0.2", "127.0.0.1"] }
            for _ in 1...2 {
                #expect(try await answer(of: source) == .taken)
                await source.lookAgain()
            }
            await source.close()
        }
    }

    @Test func aFailureLooksTheHostUpAnew() async throws {
        try await HookReceiver().serve { port in
            let (delivery, keys) = try configured(port: port)
            let address = NIOLockedValueBox("127.0.0.2")
            let source = ReceiverSource(delivery, keys) { _, _ in [address.withLockedValue(\.self)] }
            guard case .silent = try await answer(of: source) else { throw HarnessError("somebody listens there") }
            address.withLockedValue { $0 = "127.0.0.1" }
            guard case .silent = try await answer(of: source) else { throw HarnessError("an address is believed for a minute") }
            await source.lookAgain()
            #expect(try await answer(of: source) == .taken)
            await source.close()
        }
    }
}
