// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

package enum CommitThread {
    /// Yields each time a thread wakes its reader. Several wake-ups may share one element.
    /// - Parameter watch: runs in a thread and not a task, because it blocks. `stop` becomes readable after the iteration has ended.
    package static func commits(_ watch: @escaping @Sendable (_ stop: Int32, _ wake: () -> Void) -> Void) -> AsyncStream<Void> {
        let (commits, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let stop = Pipe()
        let thread = Thread { watch(stop.fileHandleForReading.fileDescriptor) { continuation.yield() } }
        thread.name = "siwatch commits"
        continuation.onTermination = { _ in try? stop.fileHandleForWriting.close() }
        thread.start()
        return commits
    }
}
