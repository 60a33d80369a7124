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
/// The Swift interface, the control routes and Apple's endpoints all work on the same ``AppleWorld``, behind one lock.
package final class AppleSimulator: Service {
    let configuration: SimulatorConfiguration
    let logger: Logger
    let world: NIOLockedValueBox<AppleWorld>
    let delivery: NotificationDelivery?
    private let onListening: @Sendable (String) -> Void

    /// - Parameter onListening: called once with the base URL, `http://127.0.0.1:<port>`, when the simulator answers requests.
    /// - Throws: an error of swift-crypto if it could not make a key.
    package init(
        _ configuration: SimulatorConfiguration,
        logger: Logger = Logger(label: "apple-simulator", factory: { _ in SwiftLogNoOpLogHandler() }),
        onListening: @escaping @Sendable (_ baseURL: String) -> Void = { _ in }
    ) throws {
        self.configuration = configuration
        self.logger = logger
        self.world = NIOLockedValueBox(try AppleWorld(configuration))
        self.delivery = configuration.delivery.map { NotificationDelivery(target: $0, logger: logger) }
        self.onListening = onListening
    }

    /// Serves until its task is cancelled or asked to shut down gracefully.
    ///
    /// - Throws: an error of NIO if it cannot bind the port.
    package func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await SimulatorServer(simulator: self, onListening: self.onListening).run() }
            if let delivery {
                group.addTask { await delivery.run(reportingTo: self) }
            }
            // The server ends first: on a shutdown, or because it could not start. The simulator delivers nothing after that.
            try await group.next()
            group.cancelAll()
        }
    }
}
