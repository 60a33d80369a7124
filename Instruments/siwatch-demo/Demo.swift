// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation
import UnixSignals

/// Shows siwatch at work against a simulated Apple, and checks what it shows.
@main
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch-demo",
        abstract: "Watch siwatch at work against a simulated Apple on this machine.",
        discussion: """
            It starts both, lets people sign in, revoke, delete their accounts and switch off mail, and compares what siwatch says in \
            the end with what they did. Exit code: 0 if every figure is right, 1 if not.
            """
    )

    @Flag(help: "Leave the scratch folder, and say how to look into it.") var keep = false

    func run() async throws {
        // Whoever reads our output may leave before the end: there is still a folder to remove.
        signal(SIGPIPE, SIG_IGN)
        let show = Show(keepsFolder: keep)
        let code = try await withThrowingTaskGroup(of: ExitCode?.self) { group in
            group.addTask {
                for await signal in await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup) {
                    return ExitCode(128 + signal.rawValue)
                }
                return nil
            }
            group.addTask { try await show.run() ? .success : .failure }
            let first = try await group.next() ?? nil
            group.cancelAll()
            // A show that was interrupted stops what it has started, and only then is it over.
            while let _ = try? await group.next() {}
            return first
        }
        throw code ?? .failure
    }
}
