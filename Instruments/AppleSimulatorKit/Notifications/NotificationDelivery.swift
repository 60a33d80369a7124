// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1

/// Posts notifications to an app's endpoint as Apple does: again after any status but 200, and in no promised order.
struct NotificationDelivery: Sendable {
    private static let width = 16

    private struct Posting: Sendable {
        let notification: SignedNotification
        let target: DeliveryTarget
    }

    private let logger: Logger
    private let queue: AsyncStream<Posting>
    private let intake: AsyncStream<Posting>.Continuation

    init(logger: Logger) {
        self.logger = logger
        (queue, intake) = AsyncStream.makeStream()
    }

    func enqueue(_ notifications: [SignedNotification], to target: DeliveryTarget) {
        for notification in notifications { intake.yield(Posting(notification: notification, target: target)) }
    }

    func run(reportingTo simulator: AppleSimulator) async {
        await withTaskGroup(of: Void.self) { group in
            var free = Self.width
            for await posting in queue {
                if free == 0 { await group.next() } else { free -= 1 }
                group.addTask {
                    let isDelivered = await deliver(posting.notification, to: posting.target)
                    simulator.withWorld { world in
                        world.counters.notifications.delivered += isDelivered ? 1 : 0
                        world.counters.notifications.undelivered += isDelivered ? 0 : 1
                    }
                }
            }
        }
    }

    private func deliver(_ notification: SignedNotification, to target: DeliveryTarget) async -> Bool {
        for attempt in 1...max(1, target.attempts) {
            if attempt > 1, (try? await Task.sleep(for: target.pause)) == nil { return false }
            do {
                let status = try await post(notification, to: target)
                if status == 200 { return true }
                logger.notice("notification refused", metadata: ["jti": "\(notification.id)", "status": "\(status)"])
            } catch {
                logger.notice("notification not delivered", metadata: ["jti": "\(notification.id)", "error": "\(error)"])
            }
        }
        return false
    }

    private func post(_ notification: SignedNotification, to target: DeliveryTarget) async throws -> UInt {
        var request = HTTPClientRequest(url: target.url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(string: notification.body))
        return try await HTTPClient.shared.execute(request, timeout: TimeAmount(target.timeout)).status.code
    }
}

/// The latest notifications, kept to send any of them again unchanged.
struct NotificationLog: Sendable {
    static let kept = 10_000

    private var log: [SignedNotification] = []

    mutating func append(_ notification: SignedNotification) {
        // Half of them at once, because each removal moves all that stay.
        if log.count == 2 * Self.kept { log.removeFirst(Self.kept) }
        log.append(notification)
    }

    var all: [SignedNotification] { log.suffix(Self.kept) }

    subscript(id: String) -> SignedNotification? { log.suffix(Self.kept).last { $0.id == id } }
}

/// A notification as Apple sends it, with the details that a test needs.
package struct SignedNotification: Sendable, Codable, Equatable {
    /// The `jti`.
    package let id: String
    package let type: String
    package let userID: String
    /// The client that `aud` names.
    package let audience: String
    package let eventTime: Moment
    /// The body of the POST, byte by byte: `{"payload":"<JWS>"}`.
    package let body: String

    enum CodingKeys: String, CodingKey {
        case id = "jti"
        case type
        case userID = "user_id"
        case audience = "client_id"
        case eventTime = "event_time"
        case body
    }
}
