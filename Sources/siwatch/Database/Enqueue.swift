// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

struct Enqueue: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Puts the body of a notification into its queue, as a backend does.",
        discussion: """
            The body as Apple posted it, {"payload":"…"}, or the bare JWS, of at most 65536 bytes. A line break at its end does no harm. \
            It counts as received now.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: ArgumentHelp("The file that holds it; - for standard input.", valueName: "file"), completion: .file())
    var source: String

    func run() async throws {
        let configuration = try options.readConfiguration()
        let body = try read()
        guard !body.isEmpty else { throw CommandFailure.wrongUsage("\(sourceName) is empty") }
        guard body.count <= Queue.longestNotification else {
            throw CommandFailure.wrongUsage("\(sourceName) is longer than \(Queue.longestNotification) bytes: Apple did not send this")
        }
        let now = Invocation.current.clock.now
        let appended = try await configuration.withStore(appends: true) { try await $0.append([.notification(body)], at: now) }
        for case .row(let row) in appended { try output.print(["id": row.id], "Row \(row.id) of notification_queue.") }
    }

    private var sourceName: String { source == "-" ? "standard input" : source.printable }

    private func read() throws(CommandFailure) -> [UInt8] {
        // Reads past the limit, to learn whether the body is too long.
        guard let file = Invocation.current.console.open(source),
            let body = try? file.read(upToCount: Queue.longestNotification + 1) ?? Data()
        else { throw .failed("\(sourceName) cannot be read: \(systemError())") }
        return Array(body)
    }
}
