// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Logging
import NIOConcurrencyHelpers
import ServiceLifecycle

/// Apple on loopback: the endpoints of Sign in with Apple over real HTTP, and a world of people behind them.
///
/// It imports nothing of the program under test, so that the two cannot share a mistake. Its knowledge of Apple comes from Apple's
/// documents, captures and other people's code. Where these disagree, it follows the captures, and a comment there says so.
///
/// Control messages and Apple's endpoints work on one ``AppleWorld``. A caller in this process lets a message happen without HTTP.
package final class AppleSimulator: Service {
    let configuration: SimulatorConfiguration
    let logger: Logger
    private let delivery: NotificationDelivery
    private let world: NIOLockedValueBox<AppleWorld>
    private let onListening: @Sendable (String) -> Void

    /// - Parameter onListening: called once with the base URL, `http://127.0.0.1:<port>`, when the simulator answers requests.
    package init(
        _ configuration: SimulatorConfiguration,
        logger: Logger = Logger(label: "siwatch-simulator", factory: { _ in SwiftLogNoOpLogHandler() }),
        onListening: @escaping @Sendable (_ baseURL: String) -> Void = { _ in }
    ) throws {
        (self.configuration, self.logger) = (configuration, logger)
        self.world = NIOLockedValueBox(try AppleWorld(configuration))
        self.delivery = NotificationDelivery(logger: logger)
        self.onListening = onListening
    }

    /// Serves until its task is cancelled or asked to shut down gracefully, if it can bind the port.
    package func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await SimulatorServer(simulator: self, onListening: self.onListening).run() }
            group.addTask { await self.delivery.run(reportingTo: self) }
            // The server ends first: on a shutdown, or because it could not start. The simulator delivers nothing after that.
            try await group.next()
            group.cancelAll()
        }
    }

    /// Reads or changes the world, alone. `body` must be short, because all requests wait for it.
    @discardableResult
    package func withWorld<Result>(_ body: (inout AppleWorld) throws -> Result) rethrows -> Result { try world.withLockedValue(body) }

    func change(_ body: (inout AppleWorld) throws -> Void) rethrows -> Done {
        try withWorld(body)
        return Done()
    }

    /// Signs drafts on all cores, keeps the results for ``Redeliver`` and posts them to the configured endpoint, if any.
    func emit(_ drafts: [NotificationDraft]) async throws -> [SignedNotification] {
        let notifications = try await drafts.concurrentMap { try $0.signed() }
        withWorld { world in
            world.counters.notifications.emitted += notifications.count
            for notification in notifications { world.notifications.append(notification) }
        }
        deliver(zip(drafts, notifications).filter { $0.0.emission.deliver ?? true }.map(\.1))
        return notifications
    }

    /// Posts notifications to the endpoint that takes them, if any.
    func deliver(_ notifications: [SignedNotification]) {
        guard let target = withWorld({ $0.delivery }) else { return }
        delivery.enqueue(notifications, to: target)
    }

    /// Names the endpoint of later notifications, because an app may begin to listen after Apple.
    package func deliver(to target: DeliveryTarget) { withWorld { $0.delivery = target } }

    /// Starts one, and returns when it answers requests. It runs until its task is cancelled. Tests let it run until the process ends,
    /// because NIO traps where a server is cancelled as a connection comes in (swift-nio issue 2637).
    ///
    /// - Returns: with its base URL, `http://127.0.0.1:<port>`.
    package static func start(
        _ configuration: SimulatorConfiguration,
        on executor: (any TaskExecutor)? = nil
    ) async throws -> (simulator: AppleSimulator, baseURL: String, running: Task<Void, any Error>) {
        let (listening, announcement) = AsyncStream.makeStream(of: String.self)
        let simulator = try AppleSimulator(configuration) { announcement.yield($0) }
        let running = Task(executorPreference: executor) {
            // A simulator that cannot start must not leave its user waiting.
            defer { announcement.finish() }
            try await simulator.run()
        }
        guard let baseURL = await listening.first(where: { _ in true }) else {
            running.cancel()
            try await running.value
            throw CancellationError()
        }
        return (simulator, baseURL, running)
    }
}

extension Array where Element: Sendable {
    /// The results of `transform` in the order of the elements, computed on all cores.
    func concurrentMap<Result: Sendable>(_ transform: @escaping @Sendable (Element) throws -> Result) async throws -> [Result] {
        // A signature takes about half a millisecond. A chunk is some 15 ms of work, beside which the cost of a task is nothing.
        let chunkSize = 32
        guard count > chunkSize else { return try map(transform) }
        return try await withThrowingTaskGroup(of: (start: Int, results: [Result]).self) { group in
            for start in stride(from: 0, to: count, by: chunkSize) {
                group.addTask { (start, try self[start..<Swift.min(start + chunkSize, count)].map(transform)) }
            }
            var chunks: [(start: Int, results: [Result])] = []
            for try await chunk in group { chunks.append(chunk) }
            return chunks.sorted { $0.start < $1.start }.flatMap(\.results)
        }
    }
}
