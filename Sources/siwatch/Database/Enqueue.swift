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
            throw CommandFailure.wrongUsage(
                "\(sourceName) is longer than \(Queue.longestNotification) bytes: Apple did not send this"
            )
        }
        do {
            let id = try await configuration.existingDatabase().openBeside().closing { try await $0.enqueue(notification: body) }
            try output.print(["id": id], "Row \(id) of notification_queue.")
        } catch {
            throw CommandFailure(database: error)
        }
    }

    private var sourceName: String { source == "-" ? "standard input" : source.printable }

    private func read() throws(CommandFailure) -> [UInt8] {
        let console = Invocation.current.console
        let descriptor = console.open(source)
        guard descriptor >= 0 else { throw .failed("\(sourceName) cannot be read: \(systemError())") }
        defer { console.close(descriptor) }
        var body: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        // Reads past the limit, to learn whether the body is too long.
        while body.count <= Queue.longestNotification {
            let count = Foundation.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw .failed("\(sourceName) cannot be read: \(systemError())") }
            if count == 0 { break }
            body += buffer.prefix(count)
        }
        return body
    }
}
