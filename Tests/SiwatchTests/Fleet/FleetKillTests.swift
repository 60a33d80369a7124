// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Testing

/// Three replicas that the test kills in turn while people come and go. The result is the same as on one undisturbed SQLite file. `make
/// test-fleet-kills` runs it for ten minutes.
struct FleetKillTests {
    private static let minutes = setting("SIWATCH_TEST_MINUTES", 0)
    private static let kills = 4
    /// Rows of each lane that come at a time, during the kills and restarts.
    private static let wave = 20
    private static let seed = setting("SIWATCH_TEST_SEED", UInt64.random(in: 0...9_999))

    @Test(.timeLimit(.minutes(minutes > 0 ? minutes + 170 : 20))) func theEndIsTheSameAsOnOneFileThatNothingHasStruck() async throws {
        try await FleetRun.with(seed: Self.seed, isLong: Self.minutes > 0, patience: .zero) { run in
            let start = ContinuousClock.now
            var number = 0
            while Self.minutes > 0 ? ContinuousClock.now < start + .seconds(60 * Self.minutes) : number < Self.kills {
                let (people, fleet, fault) = (run.people, run.fleet, FleetFault.kill(number % ReplicaFleet.size))
                try await people.keepComing(Self.wave) {
                    try await people.untilAmidWork(of: Self.wave)
                    try await fleet.strike(fault)
                    try await people.signInAndWait(byCode: number % 2 == 0)
                    try await fleet.heal(after: fault)
                }
                number += 1
                try await run.look(after: "kill \(number), seed \(Self.seed)")
                run.say("kill \(number)")
            }
            try await run.end()
            let twin = FileTwin(of: run.site)
            let differences = try await twin.differences(after: run.people.facts)
            #expect(differences == [], "seed \(Self.seed)")
            run.say("\(number) kills; \(differences.count) differences")
        }
    }
}
