// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

/// The options of every command that needs a configuration.
struct CommonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The configuration file. Also by SIWATCH_CONFIG.", valueName: "file"),
        completion: .file(extensions: ["toml"])
    )
    var config: String?

    var configurationPath: String {
        config ?? ProcessInfo.processInfo.environment["SIWATCH_CONFIG"] ?? "/etc/siwatch/siwatch.toml"
    }

    /// - Throws: every mistake in the file at once.
    func readConfiguration() throws(CommandFailure) -> Configuration {
        do {
            return try Configuration(contentsOf: configurationPath)
        } catch {
            throw CommandFailure(error)
        }
    }
}
