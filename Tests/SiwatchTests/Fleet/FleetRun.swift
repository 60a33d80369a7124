// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// Three siwatch on a server, people, a follower of the feed and an inspector, for as long as a test takes.
struct FleetRun {
    let site: Site
    let fleet: ReplicaFleet
    let people: FleetPeople
    let feed: FeedFollower
    var inspector: FleetInspector

    /// Whether lost claims are waited for, a minute or longer. A short run ends them by hand, once all else is settled.
    let isLong: Bool

    static func with(seed: UInt64, isLong: Bool, _ body: (inout FleetRun) async throws -> Void) async throws {
        let server = try PostgresServer(canFill: true)
        defer { server.stop() }
        let refresh = """
            interval = "30m"
            max_requests_per_second = \(FleetInspector.requestsPerSecond)
            max_concurrent_requests = \(FleetInspector.concurrency)
            """
        try await Site.with(on: .server(server), listen: "127.0.0.1:0", ["refresh": refresh]) { site in
            // So that something is under way whenever something strikes.
            try await site.apple.script(.delay(.milliseconds(15)))
            let (people, feed) = (try FleetPeople(site, seed: seed), try FeedFollower(site))
            let inspector = try FleetInspector(site, feed)
            try await ReplicaFleet.with(on: server, site) { fleet in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await feed.run() }
                    defer { group.cancelAll() }
                    var run = FleetRun(site: site, fleet: fleet, people: people, feed: feed, inspector: inspector, isLong: isLong)
                    try await body(&run)
                }
            }
        }
    }

    /// - Throws: with all that is wrong, if anything is.
    mutating func look(after what: @autoclosure () -> String) async throws {
        let wrong = try await inspector.look(told: people.told, fleet)
        try refuse(wrong, after: what())
    }

    private func refuse(_ wrong: [String], after what: @autoclosure () -> String) throws {
        guard wrong.isEmpty else { throw HarnessError("after \(what()):\n\(wrong.prefix(20).joined(separator: "\n"))") }
    }

    /// Waits until nothing waits, and looks whether all is as it has to be. Then the replicas are stopped.
    mutating func end() async throws {
        // A claim doubles each time that it is lost.
        let limit = ContinuousClock.now + .seconds(900)
        while try await !people.areAllSettled(within: isLong ? .seconds(900) : .seconds(2)) {
            guard .now < limit else { throw HarnessError("something waits still") }
            try await fleet.endLostClaims()
        }
        let lost = try await people.signInAgain()
        guard try await people.areAllSettled(within: .seconds(180)) else { throw HarnessError("somebody's second sign-in waits still") }
        try await feed.catchUp(with: site.backend)
        try await look(after: "all was settled")
        try refuse(try await inspector.lookAtTheEnd(deaths: fleet.deaths, lost: lost), after: "all was settled")
        try await fleet.untilReady(true)
        try refuse(await fleet.leaks, after: "all was settled")
        let statuses = await fleet.stop()
        let untidy = statuses.filter { $0 != 0 }.map { "a replica stopped with \($0)" }
        try refuse(untidy + (try await fleet.betrayals), after: "the stop")
        let (told, deaths, ends) = (await people.told, await fleet.deaths, await fleet.ends)
        let (strikes, fullDisks) = (await fleet.strikes.map { "\($0) \($1)" }.sorted(), await fleet.fullDisks)
        let traffic = try await site.apple.counters().counters.traffic
        say("\(told)")
        say("\(strikes.joined(separator: ", ")), of which a full disk was met \(fullDisks) times")
        say("\(lost) codes lost in \(deaths) deaths, \(ends.count) of their own: \(ends)")
        say(
            """
            \(traffic.handovers) handovers, \(traffic.strays) strays; at most \(traffic.mostCodesInASecond) codes and \
            \(traffic.mostOthersInASecond) others in a second
            """
        )
    }

    /// Of a run that takes long, people want to know how far it is.
    func say(_ words: String) {
        if isLong { FileHandle.standardError.write(Data("\(Date.now.formatted(.iso8601)) \(words)\n".utf8)) }
    }
}

/// A number that the environment gives.
func setting<Number: LosslessStringConvertible>(_ name: String, _ otherwise: Number) -> Number {
    ProcessInfo.processInfo.environment[name].flatMap { Number($0) } ?? otherwise
}
