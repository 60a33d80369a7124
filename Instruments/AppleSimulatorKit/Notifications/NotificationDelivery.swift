// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1

/// Posts notifications to an app's endpoint as Apple does: again after any status but 200, and in no promised order.
struct NotificationDelivery: Sendable {
    /// The most deliveries under way at one time.
    private static let width = 16

    private let target: DeliveryTarget
    private let logger: Logger
    private let queue: AsyncStream<SignedNotification>
    private let intake: AsyncStream<SignedNotification>.Continuation

    init(target: DeliveryTarget, logger: Logger) {
        self.target = target
        self.logger = logger
        (queue, intake) = AsyncStream.makeStream()
    }

    func enqueue(_ notifications: [SignedNotification]) {
        for notification in notifications { intake.yield(notification) }
    }

    /// Delivers until its task is cancelled.
    func run(reportingTo simulator: AppleSimulator) async {
        await withTaskGroup(of: Void.self) { group in
            var free = Self.width
            for await notification in queue {
                if free == 0 { await group.next() } else { free -= 1 }
                group.addTask {
                    let isDelivered = await deliver(notification)
                    simulator.withWorld { world in
                        world.counters.notifications.delivered += isDelivered ? 1 : 0
                        world.counters.notifications.undelivered += isDelivered ? 0 : 1
                    }
                }
            }
        }
    }

    private func deliver(_ notification: SignedNotification) async -> Bool {
        for attempt in 1...max(1, target.attempts) {
            if attempt > 1, (try? await Task.sleep(for: target.pause)) == nil { return false }
            do {
                let status = try await post(notification)
                if status == 200 { return true }
                logger.notice("notification refused", metadata: ["jti": "\(notification.id)", "status": "\(status)"])
            } catch {
                logger.notice("notification not delivered", metadata: ["jti": "\(notification.id)", "error": "\(error)"])
            }
        }
        return false
    }

    private func post(_ notification: SignedNotification) async throws -> UInt {
        var request = HTTPClientRequest(url: target.url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(string: notification.body))
        return try await HTTPClient.shared.execute(request, timeout: TimeAmount(target.timeout)).status.code
    }
}
