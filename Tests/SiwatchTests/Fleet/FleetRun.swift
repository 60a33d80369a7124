// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// Three siwatch on a server, people, a follower of the feed and an inspector, for the length of a test.
struct FleetRun {
    let site: Site
    let fleet: ReplicaFleet
    let people: FleetPeople
    let feed: FeedFollower
    var inspector: FleetInspector

    let limits: FleetLimits
    let isLong: Bool
    /// How long after its start a short run waits for lost claims, once all else is settled. Then the run ends them by hand.
    let patience: Duration
    private let start = ContinuousClock.now

    static func with(
        seed: UInt64,
        isLong: Bool,
        patience: Duration,
        _ body: (inout FleetRun) async throws -> Void
    ) async throws {
        // Its log quotes failing statements.
        let server = try PostgresServer(canFill: true, settings: ["log_min_messages=warning"])
        defer { server.stop() }
        let limits = FleetLimits(isLong: isLong)
        let tables = ["refresh": limits.configuration, "revocations": "max_per_hour = 100000", "log": "level = \"trace\""]
        try await Site.with(on: .server(server), listen: "127.0.0.1:0", tables) { site in
            // Requests take this long, so that every fault strikes while some are under way.
            try await site.apple.script(.delay(.milliseconds(15)))
            let (people, feed) = (try FleetPeople(site, seed: seed), try FeedFollower(site))
            let inspector = try FleetInspector(site, feed, limits)
            try await ReplicaFleet.with(on: server, site) { fleet in
                async let _: Void = feed.run()
                var run = FleetRun(
                    site: site,
                    fleet: fleet,
                    people: people,
                    feed: feed,
                    inspector: inspector,
                    limits: limits,
                    isLong: isLong,
                    patience: patience
                )
                try await body(&run)
            }
        }
    }

    /// - Throws: an error with all findings, if there are any.
    mutating func look(after what: @autoclosure () -> String) async throws {
        let wrong = try await inspector.look(told: people.told, fleet)
        try refuse(wrong, after: what())
    }

    private func refuse(_ wrong: [String], after what: @autoclosure () -> String) throws {
        guard wrong.isEmpty else { throw HarnessError("after \(what()):\n\(wrong.prefix(20).joined(separator: "\n"))") }
    }

    /// Waits until the queues are empty, and checks everything. Then it stops the replicas.
    mutating func end() async throws {
        let limit = ContinuousClock.now + Self.longest
        while try await !people.areAllSettled(within: isLong ? Self.longest : max(.seconds(2), patience - start.duration(to: .now))) {
            guard .now < limit else { throw HarnessError("something waits still") }
            try await fleet.endLostClaims()
        }
        let lost = try await people.signInAgain()
        try await people.leave()
        guard try await people.areAllSettled(within: .seconds(180)) else { throw HarnessError("who came or left last waits still") }
        let due = try await people.checksDue
        guard try await people.areAllChecked(within: limits.longestWait(for: due)) else {
            throw HarnessError("I6: \(try await people.checksDue) are due, as \(due) were, and Apple is not asked")
        }
        try await feed.catchUp(with: site.backend)
        try await look(after: "all was settled")
        try await fleet.untilReady(true)
        try refuse(try await fleet.stop(), after: "the stop")
        let history = await fleet.history
        try refuse(try await inspector.lookAtTheEnd(losses: history.losses, lost: lost), after: "the stop")
        let traffic = try await traffic
        say("\(await people.told)")
        let strikes = history.strikes.map { "\($0) \($1)" }.sorted().joined(separator: ", ")
        say("\(strikes), of which a full disk was met \(history.fullDisks) times")
        say("\(history.deaths) deaths, \(history.ends.count) of their own: \(history.ends)")
        say("\(lost) codes lost by \(history.losses) who had asked")
        say(
            """
            \(traffic.handovers) handovers, \(traffic.strays.count) strays; at most \(traffic.mostCodesInASecond) codes and \
            \(traffic.mostOthersInASecond) others in a second; at most \(history.largest.map { "\($0)" } ?? "nothing")
            """
        )
    }

    /// A claim doubles its length each time that it is lost.
    private static let longest = Duration.seconds(900)

    /// Apple's records of requests so far.
    var traffic: Traffic {
        get async throws { try await site.apple.send(ReadCounters()).traffic }
    }

    /// Reports progress, for a run that takes long.
    func say(_ words: String) {
        if isLong { FileHandle.standardError.write(Data("\(Date.now.formatted(.iso8601)) \(words)\n".utf8)) }
    }
}

/// A number from the environment.
func setting<Number: LosslessStringConvertible>(_ name: String, _ otherwise: Number) -> Number {
    ProcessInfo.processInfo.environment[name].flatMap { Number($0) } ?? otherwise
}
