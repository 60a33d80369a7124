// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Logging
import ServiceLifecycle
import Testing

@testable import siwatch

@Suite(.timeLimit(.minutes(5))) struct TogetherTests {
    /// Ends only after the other has learnt of the stop, too.
    private struct Partner: Service {
        let heard: AsyncStream<Void>.Continuation
        let other: AsyncStream<Void>

        func run() async throws {
            try await gracefulShutdown()
            heard.finish()
            for await _ in other {}
        }
    }

    @Test func allHearOfAStopAtOnce() async throws {
        let (first, second) = (AsyncStream.makeStream(of: Void.self), AsyncStream.makeStream(of: Void.self))
        let together = ParallelServices([
            Partner(heard: first.continuation, other: second.stream), Partner(heard: second.continuation, other: first.stream),
        ])
        let group = ServiceGroup(services: [together], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        async let end: Void = group.run()
        await group.triggerGracefulShutdown()
        try await end
    }

    @Test func oneThatFailsEndsAll() async {
        struct Failing: Service {
            func run() async throws { throw CancellationError() }
        }
        struct Endless: Service {
            func run() async throws { try await gracefulShutdown() }
        }
        await #expect(throws: CancellationError.self) { try await ParallelServices([Endless(), Failing()]).run() }
    }
}
