// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import CredentialSealing
import DaemonHarness

/// How long siwatch seals all tokens anew under a new key, what that costs its other work, and whether kills leave anything behind.
struct KeyTurnoverBenchmark: Sendable {
    let credentials, kills: Int
    /// How many notifications it settles again and again, one of each of as many users.
    let notifications: Int
    let store: Store

    func run() async throws -> Section {
        say("A key turns over on \(store.rawValue)")
        return try await Workplace.use(on: store) { place in
            let signIns = try await place.makeCredentials(min(notifications, credentials / 2))
            let bodies = try await place.notify(SwitchForwarding(on: false), signIns.map(\.userID))
            try await CredentialTable(size: credentials - signIns.count).fill(place)
            let tokens = KnownTokens(of: signIns, in: place)
            say("  \(credentials) tokens are sealed")
            try await tokens.seal()
            return try await place.withBackend { backend in
                let queue = try await FullQueue(bodies, of: place, backend)
                var run = TurnoverRun(place: place, backend: backend, tokens: credentials, queue: queue)
                say("  a new key")
                let undisturbed = try await run.turnOver(killing: 0)
                say("  a new key, and \(kills) kills")
                let killed = try await run.turnOver(killing: kills)
                say("  the rest of the work")
                let rest = run.queue
                try await place.withDaemon { _ in try await rest.drain(within: .seconds(300)) }
                say("  every token is opened")
                let opened = try await tokens.open()
                guard opened == credentials else { throw HarnessError("of \(credentials) tokens, \(opened) are left") }
                try await retire([undisturbed.oldKey, killed.oldKey], place)
                return section(undisturbed, killed, of: rest.inserted)
            }
        }
    }

    /// Starts siwatch once with the key that is left.
    private func retire(_ keys: [String], _ place: Workplace) async throws {
        for key in keys { try await place.folder.complete("secret", "retire", key) }
        let left = try place.keyRing().keyIDs
        guard left.count == 1 else { throw HarnessError("the key file holds \(left.joined(separator: ", "))") }
        try await place.withDaemon { _ in }
    }

    private func section(_ undisturbed: Turnover, _ killed: Turnover, of settled: Int) -> Section {
        func share(_ rate: Double, of turnover: Turnover) -> String { (rate / turnover.base).rounded(to: 2) }
        func rows(_ label: String, _ turnover: Turnover) -> [Section.Row] {
            let sealing = Double(credentials) / turnover.time.inSeconds
            let base = "  notifications just before and after: the limit"
            return [
                .init("\(label), asked 600 s", "\(turnover.time.inSeconds.rounded(to: 1)) s"),
                .limit(Limit(base, .perSecond(turnover.base), spread: spread(turnover)), of: turnover.base),
                .init("  tokens, asked 0.10 at most", sealing.perSecond, ratio: share(sealing, of: turnover)),
                .init(
                    "  notifications beside them, asked 0.90",
                    turnover.perSecondWhileReady.perSecond,
                    ratio: share(turnover.perSecondWhileReady, of: turnover)
                ),
            ]
        }
        let arguments = "--only \(store == .sqlite ? "key-turnover" : "postgres-key-turnover")"
        return Section(
            "\(store.rawValue): a new key seals \(credentials) tokens anew beside full work (× = this ÷ limit)",
            rows("from reload to nothing under the old key", undisturbed)
                + rows("the same through \(killed.kills) of \(kills) kill -9", killed)
                + [
                    .init("  with the starts", killed.perSecond.perSecond, ratio: share(killed.perSecond, of: killed)),
                    .init("tokens that open under the last key alone, each with its text", "\(credentials) of \(credentials)"),
                    .init("notifications settled and logged, each once", "\(settled) of \(settled)"),
                ],
            arguments: "\(arguments) --credentials \(credentials) --kills \(kills) --notifications \(notifications)"
        )
    }

    private func spread(_ turnover: Turnover) -> ClosedRange<Double> {
        min(turnover.before, turnover.after)...max(turnover.before, turnover.after)
    }
}
