// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import AsyncHTTPClient
import BoundedHTTP
import CredentialCore
import CredentialMonitor
import Foundation
import Logging
import ServiceLifecycle

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Runs the daemon until SIGTERM or SIGINT.",
        discussion: "A stop drains: what is in flight is finished and written first."
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Settle all that is due now, then exit.") var once = false

    func run() async throws {
        OwnProcess.shareArenas()
        OwnProcess.raiseFileLimit()
        let configuration = try options.readConfiguration()
        let keys = try Keys(configuration)
        // Until a reload can follow, because by default the signal ends the process.
        if !once { signal(SIGHUP, SIG_IGN) }
        let output = LogOutput(configuration.log)
        defer { output.writer.drain(within: .seconds(1)) }
        LoggingSystem.bootstrap { label in LogLines(label: label, output: output) }

        let database = try await OpenedDatabase(configuration, keys)
        do {
            try await HTTPClient.withHTTPClient(configuration: .bounded) { client in
                let daemon: Daemon
                do {
                    daemon = try await Daemon(configuration, keys, database, client, log: output, delivers: !once)
                } catch {
                    await database.leave()
                    throw error
                }
                if once { try await daemon.runOnce() } else { try await daemon.run() }
            }
        } catch {
            await database.close()
            switch error {
            case let failure as CommandFailure: throw failure
            case let error as StoreError: throw CommandFailure(database: error)
            case let other as LaneKeeper.OtherConfiguration: throw CommandFailure(other)
            default: throw CommandFailure.failed("\(error)")
            }
        }
        await database.close()
    }
}
