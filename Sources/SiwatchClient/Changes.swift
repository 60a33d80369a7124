// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension SiwatchClient {
    /// Changes in order, without an end. Nothing is lost if a task stops in the middle: begin again after the last `id` you have kept.
    public struct Changes: Sendable, AsyncSequence {
        let client: SiwatchClient
        let after: String?
        let app: String?
        let wait: Int

        public func makeAsyncIterator() -> Iterator { Iterator(client: client, app: app, wait: wait, after: after) }

        public struct Iterator: Sendable, AsyncIteratorProtocol {
            let client: SiwatchClient
            let app: String?
            let wait: Int
            var after: String?
            var unread: ArraySlice<Change> = []

            public mutating func next() async throws -> Change? {
                while unread.isEmpty {
                    let position = if let after { after } else { try await client.position(patience: .forever) }
                    let query: KeyValuePairs<String, String?> = ["after": position, "app": app, "wait": "\(wait)"]
                    let page: Page = try await client.get("/v1/changes", query, wait: wait, patience: .forever)
                    after = page.next
                    unread = page.changes[...]
                    if unread.isEmpty { try await Task.sleep(for: SiwatchClient.breath) }
                }
                return unread.removeFirst()
            }
        }
    }
}
