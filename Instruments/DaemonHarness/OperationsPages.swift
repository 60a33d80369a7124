// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import NIOCore
import NIOHTTP1

/// The HTTP pages of a daemon for operators.
package struct OperationsPages: Sendable {
    private let url: String

    /// Waits until the daemon logs the address that it listens on.
    package init(of daemon: ChildProcess) async throws {
        guard let line = await daemon.line(containing: "Metrics and health are served"),
            let address = line.firstMatch(of: /127\.0\.0\.1:[0-9]+/)
        else { throw HarnessError("siwatch serves nothing: \(daemon.output)") }
        url = "http://\(address.output)"
    }

    /// The body of a page, whatever its status.
    ///
    /// - Parameter accept: the header of that name, by which siwatch knows a browser.
    package func get(_ page: String, accept: String? = nil) async throws -> String {
        var request = HTTPClientRequest(url: "\(url)/\(page)")
        if let accept { request.headers.add(name: "accept", value: accept) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        return String(buffer: try await response.body.collect(upTo: 4 << 20))
    }

    /// Repeats the request until a page's body meets a condition.
    package func get(
        _ page: String,
        accept: String? = nil,
        within limit: Duration,
        until isMet: (String) -> Bool
    ) async throws -> String {
        let end = ContinuousClock.now + limit
        while true {
            let body = try await get(page, accept: accept)
            if isMet(body) || .now > end { return body }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
