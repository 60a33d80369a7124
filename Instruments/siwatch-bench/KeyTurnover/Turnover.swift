// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import DaemonHarness
import Foundation

/// What a turnover of the sealing key took, and what siwatch did beside it.
struct Turnover: Sendable {
    var oldKey = ""
    var newKey = ""
    var start = ContinuousClock.now
    /// From the reload until nothing stands under the old key.
    var time = Duration.zero
    var kills = 0
    /// Notifications a second, just before and just after it.
    var before = 0.0
    var after = 0.0
    /// The notifications settled from its start to its end.
    var settled = 0
    /// The time in which siwatch was ready, and the notifications settled then.
    var ready = (time: Duration.zero, settled: 0)

    var base: Double { (before + after) / 2 }
    var perSecond: Double { Double(settled) / time.inSeconds }
    var perSecondWhileReady: Double { Double(ready.settled) / ready.time.inSeconds }
}

/// siwatch at full work, whose sealing keys turn over.
struct TurnoverRun: Sendable {
    let place: Workplace
    let backend: Backend
    let tokens: Int
    var queue: FullQueue

    /// Of a new process, before its rate counts.
    private static let warmUp = Duration.seconds(3)
    private static let base = Duration.seconds(30)
    private static let longest = Duration.minutes(40)

    private struct KillIsDue: Error {}

    /// Puts a new key above the others, and waits until nothing stands under the old one.
    ///
    /// - Parameter kills: how often siwatch is killed and started again meanwhile, spread over the sweep.
    mutating func turnOver(killing kills: Int) async throws -> Turnover {
        let place = place
        var turnover = Turnover()
        while true {
            do {
                try await place.withDaemon { daemon in
                    if turnover.newKey.isEmpty { try await begin(&turnover, daemon) }
                    try await follow(&turnover, killing: kills)
                    turnover.after = try await rate()
                }
                return turnover
            } catch is KillIsDue {
                // Whatever ends the body, siwatch got SIGKILL.
                turnover.kills += 1
            }
        }
    }

    private mutating func rate() async throws -> Double {
        _ = try await queue.perSecond(during: Self.warmUp)
        return try await queue.perSecond(during: Self.base)
    }

    private mutating func begin(_ turnover: inout Turnover, _ daemon: ChildProcess) async throws {
        turnover.before = try await rate()
        turnover.oldKey = try place.keyRing().keyIDs[0]
        try await place.folder.complete("secret", "rotate")
        turnover.newKey = try place.keyRing().keyIDs[0]
        turnover.start = .now
        turnover.settled = -(try await queue.settled())
        daemon.signal(SIGHUP)
    }

    /// - Throws: `KillIsDue`.
    private mutating func follow(_ turnover: inout Turnover, killing kills: Int) async throws {
        let (start, first) = (ContinuousClock.now, try await queue.fill())
        let isOver = try await awaitEnd(of: turnover, killing: kills)
        let last = try await queue.settled()
        turnover.ready.settled += last - first
        turnover.ready.time += ContinuousClock.now - start
        guard isOver else { throw KillIsDue() }
        turnover.settled += last
        turnover.time = ContinuousClock.now - turnover.start
    }

    /// - Returns: whether nothing stands under the old key any more; false if a kill is due first.
    private mutating func awaitEnd(of turnover: Turnover, killing kills: Int) async throws -> Bool {
        // siwatch notes the seals of each portion. A kill may lose such a note, so count on nine tenths.
        let share = (Double(turnover.kills) + Double.random(in: 0.1..<0.9)) / Double(max(kills, 1))
        let sealsAtKill = Int(share * 0.9 * Double(tokens))
        while ContinuousClock.now - turnover.start < Self.longest {
            try await Task.sleep(for: FullQueue.pause)
            try await queue.fill()
            // The row is missing before siwatch has counted.
            let isNothing = "SELECT COUNT(*) FROM counter WHERE name = ? AND value = 0"
            if try await backend.int(isNothing, ["sealed.\(turnover.oldKey)"]) > 0 { return true }
            if turnover.kills < kills, try await backend.counter("seals.\(turnover.newKey)") >= sealsAtKill {
                try await Task.sleep(for: .milliseconds(Int.random(in: 0..<200)))
                return false
            }
        }
        throw HarnessError("after \(Self.longest), values still stand under the key \(turnover.oldKey)")
    }
}
