// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import AppleSimulatorKit
import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import DaemonHarness
import Foundation
import NIOCore
import NIOHTTP1

/// The HTTP client of siwatch without siwatch: the same POSTs with the same client secret to the same simulator.
struct BareClient: Sendable {
    private let url: String
    private let bodies: [ByteBuffer]

    init(_ place: Workplace, _ signIns: [SignIn]) async throws {
        let keyFile = place.folder.url.appending(path: SimulatedApple.keyFile)
        let key = try ClientSecretKey(id: SimulatedApple.keyID, text: Secret(String(contentsOf: keyFile, encoding: .utf8)))
        let now = Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000))
        let secret = try await ClientSecrets(teamID: SimulatedApple.teamID, key: key, clock: WallClock(now: { now }, sleep: { _, _ in }))
            .secret(for: Workplace.clientID).secret.reveal
        url = "\(place.apple.url)/auth/token"
        // No value needs percent-encoding.
        bodies = signIns.compactMap(\.refreshToken).map { token in
            ByteBuffer(string: "client_id=\(Workplace.clientID)&client_secret=\(secret)&grant_type=refresh_token&refresh_token=\(token)")
        }
    }

    /// Sends one request about every token.
    func answersPerSecond(atOnce concurrency: Int) async throws -> Double {
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: .bounded)
        do {
            let start = ContinuousClock.now
            try await withThrowingDiscardingTaskGroup { group in
                for first in 0..<concurrency {
                    group.addTask {
                        for index in stride(from: first, to: bodies.count, by: concurrency) { try await post(bodies[index], by: client) }
                    }
                }
            }
            let time = ContinuousClock.now - start
            try await client.shutdown()
            return Double(bodies.count) / time.inSeconds
        } catch {
            try? await client.shutdown()
            throw error
        }
    }

    private func post(_ body: ByteBuffer, by client: HTTPClient) async throws {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "user-agent", value: "siwatch/bench")
        request.headers.add(name: "accept", value: "application/json")
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        request.body = .bytes(body)
        let response = try await client.execute(request, timeout: .seconds(15))
        let answer = try await response.body.collect(upTo: 65_536)
        guard response.status == .ok else { throw HarnessError("the simulator answered \(response.status): \(String(buffer: answer))") }
    }
}
