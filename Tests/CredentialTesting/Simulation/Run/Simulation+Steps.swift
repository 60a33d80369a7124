// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

extension Simulation {
    mutating func chance(_ perThousand: Int) -> Bool { Int.random(in: 0..<1000, using: &generator) < perThousand }

    /// For what the simulation learned later, so that older decisions stay.
    mutating func chanceAside(_ perThousand: Int) -> Bool { Int.random(in: 0..<1000, using: &asides) < perThousand }

    mutating func step() async throws {
        do {
            if chance(plan.crashes) {
                if chance(500) { throw Crash() }
                armCrash()
            }
            if plan.troublesStore, chance(60) { troubleStore(after: Int.random(in: 0...2, using: &generator)) }
            if plan.setsClock, chance(40) { try await setClock() }
            if plan.transfers, chance(60), mayTransfer { try transfer(plan.apps.randomElement(using: &generator)!) }
            if plan.changesClients, chance(40) || isDroppedForLong { try await changeClients() }
            if plan.revocationLimit != RevocationLimitRules(), chance(60) { try await decideAboutRevocations() }
            if plan.confirmsRejections, chance(150) { try await confirmWhatIsReal() }
            if plan.restores, chance(30) { try await backUpOrRestore() }
            if plan.importsFiles, chance(100) { try await importFile() }
            if plan.importsFiles, chance(80) { try await undoImport() }
            if plan.turnsSealingKeys, chance(250) { try await turnSealingKeys() }
            if plan.plantsDecisions { try noteLimits() }
            if plan.plantsDecisions, chanceAside(100) { try await plantRow() }
            if plan.importsMany, !hasImported, world.with({ $0.model.anEventAwaitsAnUntriedSignIn(at: $0.now) }) { try await importMany() }
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<18: act()
            case 18..<23: changeWeather()
            case 23..<26: turnKeys()
            case 26: try await maintain()
            case 27..<31: try await fetchSigningKeys()
            case 31: try await operate()
            case 32..<55: try await claim()
            case 55..<65: try await answerOne()
            case 65..<78: try await commitSome()
            default: try await passTime()
            }
        } catch is Crash {
            try await crash()
        }
    }

    mutating func check() throws {
        var inspector = inspector
        let violation = try world.with { state in try inspector.inspect(database, &state) }
        self.inspector = inspector
        world.with { $0.report(violation ?? breakersAreRight($0)) }
    }

    /// Only rejections of tokens that Apple had accepted before open a breaker for their number.
    private func breakersAreRight(_ state: SimulatedWorld.State) -> Violation? {
        for app in plan.apps where process.writer.breakers.breaker(of: app.name).causes.contains(.disproportion) {
            let rejections = state.model.rejectionsOfAccepted[app.name, default: 0]
            guard rejections <= plan.breaker.maxRejections else { continue }
            return Violation(.stateFollowsFromFacts, "the breaker of \(app.name) is open for \(rejections) tokens that Apple had accepted")
        }
        return nil
    }

    func checkEnd() {
        let violation = world.with { state in inspector.inspectEnd(state, isTouchy: plan.isTouchy) }
        world.with { $0.report(violation) }
        if plan.turnsSealingKeys { checkSeals() }
    }
}
