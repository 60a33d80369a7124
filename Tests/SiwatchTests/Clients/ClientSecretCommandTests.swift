// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import DaemonHarness
import Foundation
import NIOCore
import NIOHTTP1
import Testing

/// `siwatch secret client`, for a service that wants a client secret pasted.
struct ClientSecretCommandTests {
    @Test func itIsSignedForTheClientAndAppleAcceptsIt() async throws {
        try await Site.with { site in
            let (status, output) = try await site.folder.siwatch("secret", "client", "com.example.web", "--days", "30")
            #expect(status == 0 && output.count == 2, "\(output)")
            let secret = try #require(output.first { $0.hasPrefix("ey") })
            let parts = secret.split(separator: ".").compactMap { Data(base64URL: String($0)) }
            try #require(parts.count == 3)
            let header = try JSONDecoder().decode(Header.self, from: parts[0])
            #expect(header.alg == "ES256" && header.kid == SimulatedApple.keyID)
            let claims = try JSONDecoder().decode(Claims.self, from: parts[1])
            #expect(claims.iss == SimulatedApple.teamID && claims.sub == "com.example.web" && claims.aud == "https://appleid.apple.com")
            #expect(abs(claims.exp - Date().timeIntervalSince1970 - 30 * 86_400) < 600)
            let day = Date(timeIntervalSince1970: claims.exp).formatted(.iso8601.year().month().day())
            #expect(output.contains { $0.hasPrefix("ends on \(day), at ") }, "\(output)")
            #expect(try await answer(to: secret, of: "com.example.web", at: site.apple.url) == .ok)
            #expect(try await answer(to: secret, of: "com.example.app", at: site.apple.url) == .badRequest, "it is of one client")
        }
    }

    /// 182 days are the longest that Apple accepts, in whole days.
    @Test func theLongestOneIsAccepted() async throws {
        try await Site.with { site in
            let (_, output) = try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "182")
            let secret = try #require(output.first { $0.hasPrefix("ey") })
            #expect(try await answer(to: secret, of: "com.example.app", at: site.apple.url) == .ok)
            #expect(try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "183").status == 64)
            #expect(try await site.folder.siwatch("secret", "client", "com.example.app", "--days", "0").status == 64)
        }
    }

    @Test func aClientThatNoAppHasIsRefusedWithThoseThatThereAre() async throws {
        try await Site.with { site in
            let (status, output) = try await site.folder.siwatch("secret", "client", "com.example.other")
            #expect(status == 64)
            #expect(
                output == [
                    "siwatch: no app of the configuration has the client com.example.other; there is com.example.app, com.example.web"
                ]
            )
        }
    }

    private func answer(to secret: String, of clientID: String, at url: String) async throws -> HTTPResponseStatus {
        var request = HTTPClientRequest(url: "\(url)/auth/token")
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let form = "grant_type=client_credentials&scope=user.migration&client_id=\(clientID)&client_secret=\(secret)"
        request.body = .bytes(ByteBuffer(string: form))
        return try await HTTPClient.shared.execute(request, timeout: .seconds(30)).status
    }

    private struct Header: Decodable {
        var alg: String
        var kid: String
    }

    private struct Claims: Decodable {
        var iss: String
        var sub: String
        var aud: String
        /// In seconds.
        var exp: Double
    }
}

extension Data {
    fileprivate init?(base64URL text: String) {
        let base64 = text.replacing("-", with: "+").replacing("_", with: "/")
        self.init(base64Encoded: base64.padding(toLength: (base64.count + 3) / 4 * 4, withPad: "=", startingAt: 0))
    }
}
