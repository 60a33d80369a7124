// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Hummingbird
import NIOCore
import Testing

@testable import AppleSimulatorKit

struct DeliveryTests {
    /// An app's endpoint for notifications. It answers with these statuses in turn, and with 200 afterwards.
    private func withEndpoint(
        _ statuses: [HTTPResponse.Status] = [],
        _ body: @escaping @Sendable (_ url: String, _ posts: AsyncStream<String>) async throws -> Void
    ) async throws {
        let (posts, intake) = AsyncStream.makeStream(of: String.self)
        let (ports, announcement) = AsyncStream.makeStream(of: Int.self)
        let (turns, turn) = AsyncStream.makeStream(of: HTTPResponse.Status.self)
        for status in statuses { turn.yield(status) }
        turn.finish()
        let router = Router()
        router.post("notifications") { request, _ in
            intake.yield(String(buffer: try await request.body.collect(upTo: 65_536)))
            return await turns.first { _ in true } ?? .ok
        }
        let server = Application(
            router: router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { announcement.yield($0.localAddress?.port ?? 0) }
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            let port = await ports.first { _ in true } ?? 0
            try await body("http://127.0.0.1:\(port)/notifications", posts)
            group.cancelAll()
        }
    }

    @Test func eachNotificationIsPostedAsItIsUnlessAppleLostIt() async throws {
        try await withEndpoint { url, posts in
            let (backend, simulator) = try await startBackend { $0.delivery = DeliveryTarget(url: url) }
            let users = try simulator.createUsers(2).map(\.userID)
            _ = try await simulator.notify(RevokeConsent(), of: .these([users[0]]), Emission { $0.deliver = false })
            let sent = try await simulator.notify(RevokeConsent(), of: .these([users[1]]))[0]
            var received = posts.makeAsyncIterator()
            #expect(await received.next() == sent.body)
            _ = try Redeliver(id: sent.id).happen(in: simulator)
            #expect(await received.next() == sent.body)
            withExtendedLifetime(backend) {}
        }
    }

    @Test func anythingBut200IsTriedAgain() async throws {
        try await withEndpoint([.internalServerError, .noContent]) { url, posts in
            let (backend, simulator) = try await startBackend {
                $0.delivery = DeliveryTarget(url: url)
                $0.delivery?.pause = .zero
            }
            let sent = try await simulator.notify(FalseEvent(.accountDeleted), of: .these([simulator.createUser().userID]))[0]
            var received = posts.makeAsyncIterator()
            for _ in 1...3 { #expect(await received.next() == sent.body) }
            withExtendedLifetime(backend) {}
        }
    }
}
