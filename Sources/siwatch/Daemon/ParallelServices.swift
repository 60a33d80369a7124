// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ServiceLifecycle

/// Services that hear of a stop at the same moment. A service group tells one after the other, each after the one before has ended. With a
/// slow Apple, the last would hear of it too late.
struct ParallelServices: Service {
    private let services: [any Service]

    init(_ services: [any Service]) {
        self.services = services
    }

    /// Ends when all services have ended, or throws the first error.
    func run() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            for service in services { group.addTask { try await service.run() } }
        }
    }
}
