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

/// How many refreshes a second siwatch completes and commits when all credentials are due at once.
struct RefreshBenchmark: Sendable {
    let count: Int

    private static let concurrencies = [64, 256]

    func run() async throws -> Section {
        say("Refreshes")
        return try await Workplace.use { place in
            let signIns = try await place.makeCredentials(count)
            let bare = try await BareClient(place, signIns)
            var rows: [Section.Row] = []
            for concurrency in Self.concurrencies {
                say("  \(concurrency) at once")
                // Apple signs its answers now, and repeats them from here on.
                _ = try await bare.answersPerSecond(atOnce: concurrency)
                let before = try await limit(bare, concurrency)
                let run = try await place.refresh(signIns.map(\.userID), atOnce: concurrency)
                let after = try await limit(bare, concurrency)
                rows += [
                    .ours("siwatch, \(count) refreshes, \(concurrency) at once", run.perSecond),
                    .limit(.mean(before, after), of: run.perSecond),
                    .init("siwatch's processor time for each", run.usage.processorTime.perPiece(count)),
                    .init("siwatch's writes for each", run.usage.written.perPiece(count)),
                ]
            }
            return Section(
                "Refreshes, answered and committed, beside a simulator on the same cores (× = siwatch ÷ limit)",
                rows,
                arguments: "--only refreshes --refreshes \(count)"
            )
        }
    }

    private func limit(_ bare: BareClient, _ concurrency: Int) async throws -> Limit {
        Limit("bare async-http-client, \(concurrency) at once", .perSecond(try await bare.answersPerSecond(atOnce: concurrency)))
    }
}

/// How many refreshes a second siwatch completes and commits on PostgreSQL and, with the same users, on SQLite: by turns, several times.
struct StoreRefreshBenchmark: Sendable {
    let count, rounds: Int

    private static let concurrencies = [64, 256]

    func run() async throws -> Section {
        say("Refreshes on PostgreSQL")
        return try await Workplace.use { file in
            try await file.withNeighbour(on: .postgres) { server in
                let signIns = try await file.signIn(count)
                for place in [file, server] { try await place.takeIn(signIns) }
                let bare = try await BareClient(file, signIns)
                // Apple signs its answers now, and repeats them from here on.
                _ = try await bare.answersPerSecond(atOnce: Self.concurrencies[0])
                var rows: [Section.Row] = []
                for concurrency in Self.concurrencies {
                    var (files, servers): ([Double], [RefreshRun]) = ([], [])
                    for round in 1...rounds {
                        say("  \(concurrency) at once, round \(round) of \(rounds)")
                        // Each store goes first equally often.
                        for place in round.isMultiple(of: 2) ? [server, file] : [file, server] {
                            let run = try await place.refresh(signIns.map(\.userID), atOnce: concurrency)
                            if place.schema == nil { files.append(run.perSecond) } else { servers.append(run) }
                        }
                        try await server.vacuum()
                    }
                    rows += section(files, servers, concurrency)
                }
                return Section(
                    "Refreshes on PostgreSQL, answered and committed: medians of \(rounds) rounds (× = siwatch on PostgreSQL ÷ this)",
                    rows,
                    arguments: "--only postgres-refreshes --refreshes \(count) --rounds \(rounds)"
                )
            }
        }
    }

    private func section(_ files: [Double], _ servers: [RefreshRun], _ concurrency: Int) -> [Section.Row] {
        let ours = servers.map(\.perSecond).median
        return [
            .ours("siwatch on PostgreSQL, \(count) refreshes, \(concurrency) at once", servers.map(\.perSecond)),
            .limit(.median("siwatch on SQLite", files), of: ours),
            .init("siwatch's processor time for each", servers.map(\.usage.processorTime).median.perPiece(count)),
            .init("the log (WAL) of each", "\(servers.map(\.log).median / count) bytes"),
        ]
    }
}

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
