// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Simulation {
    /// The seed's decisions before the first step.
    struct Plan {
        var apps: [SimulatedApp]
        var users: Int
        var steps = 0
        var weathers: [Weather] = []
        /// How many steps in a thousand are crashes.
        var crashes = 0
        var losesNotifications = false
        var delaysGrants = false
        var troublesStore = false
        var freezes = false
        /// Whether backends report other tokens than those of the sign-in.
        var importsTokens = false
        /// Whether backends date sign-ins wrongly.
        var datesWrongly = false
        /// Whether backends report old facts again, dated now.
        var tellsAgain = false
        /// Whether a backend imports so many users that other sign-ins stand behind them for minutes.
        var importsMany = false
        /// Whether operators restore an old backup.
        var restores = false
        var setsClock = false
        /// How many in a thousand sign-ins bring a code, and how many in a thousand events are an app's request to revoke.
        var codes = 0
        var revocations = 0
        /// How many in a thousand events of people with an accepted token are changes of the password.
        var passwords = 0
        /// Whether Apple ends nothing but the token that it is asked to revoke. Its documents can be read so, too.
        var revokesAlone = false
        /// Whether apps move to another team.
        var transfers = false
        /// Whether apps change hands while siwatch proves a revocation, and at no other time.
        var transfersInProofs = false
        /// Whether the tokens of an app move to the other team with it.
        var tokensMove = false
        /// Whether operators take a client out of the configuration for a while.
        var changesClients = false
        /// Whether operators import files of users, and undo imports.
        var importsFiles = false
        /// Whether operators confirm rejections.
        var confirmsRejections = false
        /// Whether operators change the sealing key.
        var turnsSealingKeys = false
        /// Whether another replica takes a new key over later. On a file there is none, and its runs try the rule more often.
        var hasOtherReplica = false
        /// Whether somebody writes into the tables what siwatch decides by.
        var plantsDecisions = false
        /// A client that Apple will refuse for good.
        var refused: String?
        var breaker = BreakerRules()
        var revocationLimit = RevocationLimitRules()
        /// Users who never leave. The operator has named them.
        var canaries: [String: Set<String>] = [:]
        /// Whether the breaker opens so easily that siwatch may never believe some departures.
        var isTouchy: Bool { breaker.maxRejections < 20 }
    }
}

extension Simulation.Plan {
    /// Each decision has a generator of its own, made from the seed and the decision's name. So a new decision changes no other.
    init(seed: UInt64) {
        func number(_ range: ClosedRange<Int>, _ decision: String) -> Int {
            var generator = SeededGenerator(seed: seed ^ StableHash(decision).value)
            return Int.random(in: range, using: &generator)
        }
        func chance(_ percent: Int, _ decision: String) -> Bool { number(0...99, decision) < percent }
        let all: [Weather] = [
            .outage, .throttling(retryAfter: nil), .throttling(retryAfter: .seconds(600)), .invalidClient, .wrongKey, .ambiguous, .slow,
            .wrongClient("app"), .massRejection(1), .namesNobody,
        ]
        apps = [SimulatedApp(name: "example", clientIDs: chance(50, "second client") ? ["app", "web"] : ["app"])]
        if chance(30, "second app") { apps.append(SimulatedApp(name: "other", clientIDs: ["elsewhere"])) }
        users = number(1...6, "users")
        steps = number(40...90, "steps")
        // Each run has its own kinds of trouble, because all at once would hide one another.
        weathers = all.filter { chance(35, "weather \($0)") }
        if chance(20, "refreshes rejected") { weathers.append(.refreshesRejected("app")) }
        crashes = chance(60, "crashes") ? number(10...80, "crash rate") : 0
        losesNotifications = chance(60, "notifications lost")
        delaysGrants = chance(40, "grants delayed")
        troublesStore = chance(30, "store in trouble")
        freezes = chance(30, "freezes")
        importsTokens = chance(40, "tokens imported")
        datesWrongly = chance(15, "sign-ins misdated")
        tellsAgain = chance(30, "tokens told again")
        importsMany = chance(40, "imports of many")
        restores = chance(30, "restores")
        setsClock = chance(30, "clock set")
        codes = chance(60, "codes") ? number(100...900, "code rate") : 0
        revocations = chance(65, "revocations") ? number(50...300, "revocation rate") : 0
        passwords = chance(65, "passwords") ? number(200...700, "password rate") : 0
        revokesAlone = chance(30, "tokens revoked alone")
        transfers = chance(40, "transfers")
        transfersInProofs = !transfers && chance(50, "transfers in proofs")
        tokensMove = chance(30, "tokens move")
        if chance(10, "client refused") { refused = apps[0].clientIDs.last }
        breaker = chance(75, "usual breaker") ? BreakerRules() : BreakerRules(window: 10, maxRejections: 1, maxRejectedPercent: 50)
        revocationLimit = chance(40, "brake") ? RevocationLimitRules(maxPerHour: number(0...1, "brake bound")) : RevocationLimitRules()
        canaries = chance(30, "canaries") ? ["example": ["user0"]] : [:]
        // The model does not know how long a wrong clock lets a sign-in wait.
        changesClients = chance(30, "clients changed") && apps[0].clientIDs.count > 1 && !setsClock
        importsFiles = chance(50, "files imported")
        confirmsRejections = chance(50, "rejections confirmed")
        turnsSealingKeys = chance(40, "sealing keys turned over")
        hasOtherReplica = chance(50, "another replica")
        plantsDecisions = chance(40, "decisions planted")
    }
}
