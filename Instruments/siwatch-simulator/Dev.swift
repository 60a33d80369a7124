// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import DaemonHarness
import Foundation

/// A simulated Apple and a siwatch side by side, for a person who tries them.
struct Dev: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Runs siwatch beside a simulated Apple, without account, root or configuration.",
        discussion: """
            It prints the address of siwatch's page, a token for the HTTP door, and three curl lines: sign in, ask, delete. Each token is \
            checked every five seconds, in production once a day. `siwatch-simulator trigger` lets things happen at that Apple. Control-C \
            ends both programs and removes their folder.
            """
    )

    @Option(help: "Post siwatch's webhooks to this URL. https, or http on loopback.")
    var webhook: String?

    @Option(help: "The program siwatch. (default: the one beside this program, else the one on the PATH)")
    var siwatch: String?

    func run() async throws {
        // The reader of our output may leave before the end, and there still is a folder to remove.
        signal(SIGPIPE, SIG_IGN)
        let program = try Self.program(siwatch)
        let url = webhook
        do {
            try await interruptible { try await Self.serve(program, webhook: url) }
        } catch let code as ExitCode where code.rawValue > 128 {
            // The signal is how it ends.
            say("\nBoth programs have ended, and their folder is removed.")
        }
    }

    private static func program(_ given: String?) throws -> URL {
        let beside = try ChildProcess.program("siwatch")
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        let places = given.map { [URL(filePath: $0)] } ?? [beside] + path.map { URL(filePath: String($0)).appending(path: "siwatch") }
        if let found = places.first(where: { FileManager.default.isExecutableFile(atPath: $0.path) }) { return found }
        let missing = given ?? "\(beside.path), nor siwatch on the PATH"
        throw HarnessError(
            """
            There is no program \(missing).
            Install the package siwatch (sudo apt install ./siwatch_*.deb), or build it (make programs), or name it: --siwatch FILE.
            """
        )
    }

    // MARK: Both programs

    /// So many people that one rejected token is few, and that Apple has just answered about another.
    private static let people = 20

    private static let tables = [
        "refresh": "interval = \"5s\"\ntimeout = \"3s\"",
        // Most of the last 20 answers open it, and two probes close it.
        "breaker": "settle = \"1s\"\nwindow = 20\nmax_rejections = 5\nmax_rejected_percent = 50",
        "log": "format = \"text\"",
    ]

    private static func serve(_ program: URL, webhook: String?) async throws {
        let folder = try WatchedFolder(named: DevRecord.folderName, in: DevRecord.places[0], program: program)
        defer { folder.remove() }
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.url.path)
        var tables = Self.tables
        tables.merge(try Door.table(in: folder, listen: address(preferring: 9465))) { $1 }
        if let webhook { tables.merge(try Hook.table(in: folder, url: webhook)) { $1 } }
        try await Site.with(folder, apple: .preferring(port: 9470), listen: address(preferring: 9464), tables) { site in
            try await folder.withDaemon(interruptedBy: SIGTERM) { daemon in
                let door = try await Door(of: daemon, in: folder)
                let page = try await OperationsPages(of: daemon).url
                site.apple.simulator?.deliver(to: DeliveryTarget(url: "\(door.url)/apple/notifications"))
                try await site.tell(site.apple.signIn(people))
                guard let newcomer = try await site.apple.signInByCode(1).first else { return }
                let record = DevRecord(pid: getpid(), apple: site.apple.url, page: "\(page)/", folder: folder.url.path)
                try folder.writeSecret(record.text, to: DevRecord.fileName)
                say(words(record, door, newcomer, webhook: webhook))
                await daemon.silence()
                // A daemon that has ended by itself is an error with its last lines.
                try Task.checkCancellation()
            }
        }
    }

    /// Loopback with a port that no other program has, else with any.
    private static func address(preferring port: UInt16) -> String {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var reuse: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let isFree = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        return "127.0.0.1:\(isFree ? port : 0)"
    }

    // MARK: What it says

    private static func words(_ record: DevRecord, _ door: Door, _ person: SignIn, webhook: String?) -> String {
        let token = door.token ?? ""
        let hooks = webhook.map { "\n  webhooks   to \($0), signed with the secret \(Hook.secret)" } ?? ""
        let curl = "curl -H 'Authorization: Bearer \(token)'"
        func posting(_ path: String, _ key: String, _ body: String) -> String {
            "\(curl) -H 'Content-Type: application/json' -H 'Idempotency-Key: \(key)' \(door.url)/v1/\(path) -d '{\(body)}'"
        }
        let client = "\"client_id\": \"\(person.clientID)\""
        return """
            siwatch works beside a simulated Apple, where \(people) people have signed in. Control-C ends both, and leaves nothing.

              page       \(record.page)
              siwatch    \(door.url)
              token      \(token)
              Apple      \(record.apple)
              --config   \(record.folder)/siwatch.toml\(hooks)

            One more person has tapped "Sign in with Apple". Paste into another terminal: sign in, ask whether the session ends, delete.

            \(posting("sign-ins", "sign-in-1", "\(client), \"code\": \"\(person.code ?? "")\", \"wait\": 10"))

            \(curl) '\(door.url)/v1/users/\(person.userID)/ends-session?signed_in_at=\(person.grantedAt.milliseconds)'

            \(posting("deletions", "deletion-1", "\(client), \"user_id\": \"\(person.userID)\""))

            Let that person withdraw consent before you delete, and ask again:

              \(CommandLine.arguments[0]) trigger \(Trigger.Event.consentRevoked.rawValue)
            """
    }
}
