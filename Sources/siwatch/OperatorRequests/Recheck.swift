// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Recheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Asks Apple about a user, or all users of an app, out of turn.",
        discussion: """
            A rejected token that is still kept is asked about too: if Apple accepts it, its user is authorized again.

            Nobody is asked about more than once an hour in this way, counted from Apple's last answer. With --app, the checks are spread \
            out: at most refresh.max_requests_per_second of them become due in a second. A token that Apple has answered about within the \
            hour is asked about when the hour is over.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var progress: ProgressOptions
    @Argument(help: "Apple's `sub` of the user.") var user: String?
    @Option(help: ArgumentHelp("All users of this app instead.", valueName: "name")) var app: String?

    func validate() throws {
        guard (user == nil) != (app == nil) else { throw ValidationError("Name either a user or, with --app, an app.") }
    }

    func run() async throws {
        let request = user.map { OperatorRequest.recheckUser($0) } ?? .recheckApp(app ?? "")
        let configuration = try options.readConfiguration()
        let answer = try await request.carryOut(in: configuration, progress.line(json: output.json))
        let overview = try await configuration.withStore {
            try await $0.overview(of: configuration, at: Invocation.current.clock.now, knowing: Overview.Backlog())
        }
        let probed = overview.breakers.filter { $0.value.isProbed && (app == nil || app == $0.key) }.keys.sorted().map {
            "The breaker of \($0.printable) is open: until it closes, Apple is asked one question in \(BreakerRules.probeInterval.text)."
        }
        func absence(_ name: String) -> String {
            "\(name.printable) is not in \(configuration.source), so nobody asks Apple there: put it back, then repeat the command"
        }
        if case .rechecking(let recheck) = answer {
            guard recheck.due > 0 else { throw CommandFailure.failed(Self.reasonForNone(recheck, absence)) }
            let left = (recheck.leftClients ?? []).map { "\(absence($0))." }
            return try output.print(recheck, ([Self.text(recheck)] + left + probed).joined(separator: " "))
        }
        guard case .recheckingApp(let credentials, let tooSoon, let requestsPerSecond, let isPaused) = answer else {
            throw CommandFailure(answer, to: request)
        }
        if let app, !configuration.apps.contains(where: { $0.name == app }) { throw CommandFailure.failed(absence(app)) }
        var text = "Up to \(credentials) credentials are asked about, at most \(requestsPerSecond) a second: "
        text += "that takes \(Duration.seconds(credentials / requestsPerSecond + 1).text)."
        if tooSoon > 0 {
            text += " Apple has answered \(tooSoon) of them within the hour. siwatch asks about these when the hour is over."
        }
        if isPaused { text += Self.paused }
        let left = overview.clientsThatLeft(configuration).filter { $0.app == app }.map { "\(absence($0.clientID))." }
        try output.print(
            ["credentials": credentials, "tooSoon": tooSoon, "requestsPerSecond": requestsPerSecond, "isPaused": isPaused] as Members,
            ([text] + left + probed).joined(separator: " ")
        )
    }

    static let paused = " The app is paused: it happens once it is resumed."

    private static func text(_ recheck: OperatorAnswer.Recheck) -> String {
        var text = recheck.due == 1 ? "Apple is asked about the token now." : "Apple is asked about \(recheck.due) tokens now."
        if recheck.tooSoon > 0 {
            text += " siwatch asks later about \(recheck.tooSoon) more, because Apple has answered about them too recently."
        }
        return recheck.pausedApps.isEmpty ? text : text + paused
    }

    private static func reasonForNone(_ recheck: OperatorAnswer.Recheck, _ absence: (String) -> String) -> String {
        if let soonest = recheck.soonest { return "Apple has answered too recently; ask again after \(soonest.text)" }
        return recheck.leftClients?.map(absence).joined(separator: "; ") ?? "there is no token of this user to ask about"
    }
}
