// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Array where Element: Sendable {
    /// The results of `transform` in the order of the elements, computed on all cores.
    func concurrentMap<Result: Sendable>(_ transform: @escaping @Sendable (Element) throws -> Result) async throws -> [Result] {
        // A signature takes about half a millisecond. A chunk is some 15 ms of work, beside which the cost of a task is nothing.
        let chunkSize = 32
        guard count > chunkSize else { return try map(transform) }
        return try await withThrowingTaskGroup(of: (start: Int, results: [Result]).self) { group in
            for start in stride(from: 0, to: count, by: chunkSize) {
                group.addTask {
                    (start, try self[start..<Swift.min(start + chunkSize, count)].map(transform))
                }
            }
            var chunks: [(start: Int, results: [Result])] = []
            for try await chunk in group { chunks.append(chunk) }
            return chunks.sorted { $0.start < $1.start }.flatMap(\.results)
        }
    }
}
