// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Logging

/// Runs a simulator for as long as `body` does.
///
/// - Parameter body: gets the simulator and its base URL, `http://127.0.0.1:<port>`.
/// - Throws: what `body` throws, or an error of NIO if the simulator cannot bind the port.
package func withAppleSimulator<Result>(
    _ configuration: SimulatorConfiguration,
    logger: Logger = Logger(label: "apple-simulator", factory: { _ in SwiftLogNoOpLogHandler() }),
    isolation: isolated (any Actor)? = #isolation,
    _ body: (_ simulator: AppleSimulator, _ baseURL: String) async throws -> Result
) async throws -> Result {
    let (listening, announcement) = AsyncStream.makeStream(of: String.self)
    let simulator = try AppleSimulator(configuration, logger: logger) { announcement.yield($0) }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            // A simulator that cannot start must not leave its user waiting.
            defer { announcement.finish() }
            try await simulator.run()
        }
        guard let baseURL = await listening.first(where: { _ in true }) else {
            try await group.waitForAll()
            throw CancellationError()
        }
        defer { group.cancelAll() }
        return try await body(simulator, baseURL)
    }
}
