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

    static func with(seed: UInt64, isLong: Bool, patience: Duration, _ body: (inout FleetRun) async throws -> Void) async throws {
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

    var traffic: Traffic { get async throws { try await site.apple.send(ReadCounters()).traffic } }
    func say(_ words: String) { if isLong { FileHandle.standardError.write(Data("\(Date.now.formatted(.iso8601)) \(words)\n".utf8)) } }
}

func setting<Number: LosslessStringConvertible>(_ name: String, _ otherwise: Number) -> Number {
    ProcessInfo.processInfo.environment[name].flatMap { Number($0) } ?? otherwise
}

/// The configured limits for requests to Apple, and the numbers that the test may see.
struct FleetLimits: Sendable {
    /// Low enough to bind: a wave has more to ask than fits into a second.
    let requestsPerSecond: Int
    let interval: Duration
    static let concurrency = 8

    /// - Parameter isLong: whether siwatch asks about tokens a second time, with so many tokens that this takes a share of the limit.
    init(isLong: Bool) {
        requestsPerSecond = isLong ? 75 : 30
        interval = .seconds(isLong ? 1800 : 600)
    }

    var configuration: String {
        """
        interval = "\(interval.components.seconds)s"
        max_requests_per_second = \(requestsPerSecond)
        max_concurrent_requests = \(Self.concurrency)
        """
    }

    /// The longest time until siwatch has asked about all due credentials. It is the twentieth of the interval, within which a sign-in is
    /// first due, and twice the time for this many, because others become due meanwhile.
    func longestWait(for due: Int) -> Duration { interval / 20 + .seconds(due * 2 / requestsPerSecond) }

    // MARK: Requests in a second

    /// The permits that gather while no replica asks, a fifth of a second's worth, plus those of a second. A process without a processor
    /// may also send requests late that have their permits: a code in each hand.
    var mostCodesInASecond: Int { requestsPerSecond * 12 / 10 + Self.concurrency }

    /// All other requests have permits of their own. The requests of two lanes' hands may be late, and as many checks again in reserve.
    var mostOthersInASecond: Int { requestsPerSecond * 12 / 10 + Self.concurrency * 3 }

    // MARK: Work in hand of a process that dies

    /// A hand with a code waits for the commit of its exchange, so each hand has one.
    static let mostCodesLost = concurrency

    /// A check in each hand and as many in reserve, plus the answers that wait for a commit, which takes less than a second.
    var mostChecksLost: Int { Self.concurrency * 2 + requestsPerSecond }
}

/// The events of a fleet so far, as far as they explain findings.
struct FleetHistory: Sendable {
    var strikes: [FleetFault.Kind: Int] = [:]
    var deaths = 0
    /// How often a replica that asked Apple lost its work in hand, because it died or was cut off for longer than its claims last.
    var losses = 0
    /// The replicas that have thawed, and when.
    var thaws: [Thaw] = []
    var ends: [End] = []
    /// How often a replica reported a full disk.
    var fullDisks = 0
    var largest: Footprint?
    /// I8 and I9: findings about dead replicas, recorded after their end.
    var findings: [String] = []

    struct Thaw: Sendable {
        let replica: Int
        let at: Moment
    }

    /// The end of a replica that the test had not killed.
    struct End: Sendable, CustomStringConvertible {
        let status: Int32
        let lastWords: String
        /// Whether a fault had struck that may end a replica.
        let hasCause: Bool

        /// Whether systemd starts it again, as it does not after 64 and 78, and the end was no crash.
        var isInOrder: Bool { hasCause && [69, 70, 1].contains(status) }
        var description: String { "\(status): \(lastWords)" }
    }

    /// Requests of replicas that did not own the app, without an explanation. A process can freeze between its last look at the lease and
    /// the first byte of a request. Then that request comes after the thaw.
    func unexplained(_ strays: [Traffic.Stray]) -> [Traffic.Stray] {
        thaws.reduce(strays) { strays, thaw in
            let late = strays.firstIndex {
                $0.caller == "\(thaw.replica)" && (Duration.zero ... .milliseconds(500)).contains($0.at - thaw.at)
            }
            return strays.enumerated().filter { $0.offset != late }.map(\.element)
        }
    }
}

/// Secrets that must stay in their place: tokens, codes, signed texts and keys.
struct FleetSecrets: Sendable {
    private let keys: [String]

    /// - Parameter site: a migrated site, whose keys exist.
    init(of site: Site) throws {
        let files = try FileManager.default.contentsOfDirectory(at: site.folder.url, includingPropertiesForKeys: nil)
        keys = try files.filter { ["p8", "key"].contains($0.pathExtension) }.flatMap { file in
            try String(contentsOf: file, encoding: .utf8).split { $0.isNewline || $0 == ":" }.filter { $0.count >= 40 }.map(String.init)
        }
        guard keys.count >= 2 else { throw HarnessError("no keys: \(files.map(\.lastPathComponent))") }
    }

    /// Client secrets, identity tokens and notifications all begin with `{"` in base64. A `jti` is shorter.
    func areIn(_ text: String) -> Bool {
        text.contains("eyJ") && text.contains(/eyJ[\w-]{24}/) || hasKey(text)
            || text.contains(".0.") && Array(text.utf8).holdsSimulatedToken
    }

    func hasKey(_ text: String) -> Bool { keys.contains(where: text.contains) }
}

struct Footprint: CustomStringConvertible {
    let descriptors: Int
    let threads: Int
    /// In MiB.
    let memory: Int

    init(of process: pid_t) {
        func count(_ folder: String) -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/\(folder)"))?.count ?? 0
        }
        descriptors = count("fd")
        threads = count("task")
        let status = FileManager.default.contents(atPath: "/proc/\(process)/status").map { String(decoding: $0, as: UTF8.self) }
        memory = (status?.firstMatch(of: /VmRSS:\s*([0-9]+) kB/)?.1).flatMap { Int($0) }.map { $0 >> 10 } ?? 0
    }

    /// A pool keeps connections to Apple for a while, Dispatch keeps threads, and an allocator keeps the memory of a wave.
    func excess(over before: Footprint) -> String? {
        guard descriptors > before.descriptors + 32 || threads > before.threads + 16 || memory > before.memory + 32 else { return nil }
        return "\(self) after \(before)"
    }

    var description: String { "\(descriptors) descriptors, \(threads) threads and \(memory) MiB" }
}
