// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOFoundationCompat
package import NIOHTTP1

package struct Door: Sendable {
    package let url: String
    package var token: String?

    package static let tokenFile = "backend.token"

    /// Writes a token into a folder, and the table `http` of a configuration that lets its holder in.
    ///
    /// - Returns: for `Site.with`.
    package static func table(
        in folder: WatchedFolder,
        listen: String = "127.0.0.1:0",
        rights: [String] = ["notify", "sign_in", "delete", "read"],
        _ more: String = ""
    ) throws -> [String: String] {
        try folder.writeSecret((0..<8).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined(), to: tokenFile)
        let table = """
            listen = "\(listen)"
            \(more)
            [[http.client]]
            name = "backend"
            token_files = ["\(tokenFile)"]
            may = [\(rights.map { "\"\($0)\"" }.joined(separator: ", "))]
            """
        return ["http": table]
    }

    package init(of daemon: ChildProcess, in folder: WatchedFolder) async throws {
        guard let line = await daemon.line(containing: "Backends are served over HTTP"),
            let address = line.firstMatch(of: /127\.0\.0\.1:[0-9]+/)
        else { throw HarnessError("siwatch serves no backends: \(daemon.output)") }
        url = "http://\(address.output)"
        token = try String(contentsOf: folder.url.appending(path: Self.tokenFile), encoding: .utf8).trimmingCharacters(in: .newlines)
    }

    package struct Answer: Sendable {
        package var status: Int
        package var headers: HTTPHeaders
        package var body: Data

        package var text: String { String(decoding: body, as: UTF8.self) }

        package subscript(path: String) -> String? {
            var value: Any? = try? JSONSerialization.jsonObject(with: body)
            for name in path.split(separator: ".") {
                if let index = Int(name) {
                    let list = value as? [Any] ?? []
                    value = list.indices.contains(index) ? list[index] : nil
                } else {
                    value = (value as? [String: Any])?[String(name)]
                }
            }
            return value.map { "\($0)" }
        }
    }

    package func get(_ path: String, _ headers: HTTPHeaders = [:]) async throws -> Answer {
        try await send(HTTPClientRequest(url: url + path), headers)
    }

    /// - Parameter body: JSON.
    package func post(_ path: String, _ body: [String: any Sendable], _ headers: HTTPHeaders = [:]) async throws -> Answer {
        var headers = headers
        headers.add(name: "content-type", value: "application/json")
        return try await post(path, bytes: try JSONSerialization.data(withJSONObject: body), headers)
    }

    package func post(_ path: String, bytes: Data, _ headers: HTTPHeaders = [:]) async throws -> Answer {
        var request = HTTPClientRequest(url: url + path)
        request.method = .POST
        request.body = .bytes(ByteBuffer(data: bytes))
        return try await send(request, headers)
    }

    package func send(_ request: HTTPClientRequest, _ headers: HTTPHeaders = [:]) async throws -> Answer {
        var request = request
        request.headers.add(contentsOf: headers)
        if let token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        return Answer(
            status: Int(response.status.code),
            headers: response.headers,
            body: Data(buffer: try await response.body.collect(upTo: 8 << 20))
        )
    }
}

/// A receiver of webhooks, as a configuration names it.
package enum Hook {
    package static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    /// Writes a secret into a folder, and a table `[[delivery]]` with the name `hook`.
    ///
    /// - Returns: for `Site.with`.
    package static func table(
        in folder: WatchedFolder,
        scheme: String = "http",
        host: String = "127.0.0.1",
        port: Int,
        _ more: String = ""
    ) throws -> [String: String] {
        try table(in: folder, url: "\(scheme)://\(host):\(port)/hook?from=siwatch", more)
    }

    package static func table(in folder: WatchedFolder, url: String, _ more: String = "") throws -> [String: String] {
        try folder.writeSecret(secret, to: "hook.whsec")
        let table = """
            name = "hook"
            url = \(SiwatchConfiguration.quoted(url))
            secret_files = ["hook.whsec"]
            \(more)
            """
        return ["[delivery]": table]
    }
}

package struct OperationsPages: Sendable {
    package let url: String

    package init(at url: String) { self.url = url }

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
    package func get(_ page: String, accept: String? = nil, within limit: Duration, until isMet: (String) -> Bool) async throws -> String {
        let end = ContinuousClock.now + limit
        while true {
            let body = try await get(page, accept: accept)
            if isMet(body) || .now > end { return body }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
