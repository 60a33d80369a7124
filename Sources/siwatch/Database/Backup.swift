// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation
import PostgresStore
import SQLiteStore

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes one consistent copy of the database, while everything runs.",
        discussion: """
            The copy is a file of its own that needs no -wal. It holds the `sub`s and e-mail addresses of your users, and in grant_queue \
            the tokens of sign-ins that were waiting, in clear. The sealing key is not in it: keep that apart.

            Of a database on a PostgreSQL server it writes nothing, and says which command does.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The file to write; it must not exist yet.", completion: .file()) var file: String

    func run() async throws {
        let configuration = try options.readConfiguration()
        switch try configuration.existingDatabase() {
        case .file(let database): try await copy(database, of: configuration)
        case .server(let address): try advise(configuration, address)
        }
    }

    private func copy(_ database: DatabaseFile, of configuration: Configuration) async throws {
        do {
            let store = try SQLiteStore.openForReading(database)
            defer { try? store.close() }
            try await store.backUp(to: file)
        } catch let error as BackupError {
            throw CommandFailure.failed(error.sentence)
        } catch {
            throw CommandFailure(database: error)
        }
        let size = (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? 0
        try output.print(
            Report(file: file, bytes: size, keyFile: configuration.encryption.keyFile),
            "\(file.printable): \(size) bytes.\n\(keepTheKey(of: configuration))"
        )
    }

    /// Prints the server's own commands for a backup, after a check that this user may read every table.
    private func advise(_ configuration: Configuration, _ address: PostgresAddress) throws {
        let unreadable: [String]
        do {
            unreadable = try PostgresStore.unreadableTables(at: address)
        } catch {
            throw CommandFailure(database: error)
        }
        guard unreadable.isEmpty else {
            throw CommandFailure.failed("pg_dump as this user would fail: it may not read \(unreadable.joined(separator: ", "))")
        }
        let url = (configuration.database.url ?? "").shellQuoted
        let mode = address.addedMode.map { "PGSSLMODE=\($0) " } ?? ""
        let password = configuration.database.passwordFile.map { "PGPASSWORD=\"$(cat \($0.shellQuoted))\" " } ?? ""
        // Only its user may read the dump, as with a copy of a file.
        let dump = "(umask 077; \(mode)\(password)pg_dump --format=custom --schema=\(address.schema) --file=\(file.shellQuoted) \(url))"
        let restore = mode + password + "pg_restore --single-transaction --dbname=\(url) \(file.shellQuoted)"
        try output.print(
            Advice(backUp: dump, restore: restore, keyFile: configuration.encryption.keyFile),
            """
            A server has its own programs for that, in Debian's package postgresql-client. As the user \(NSUserName()), this writes one \
            consistent copy of siwatch's schema, while everything runs:
              \(dump)
            and this puts it back where the schema is not there, with every siwatch stopped:
              \(restore)
            \(keepTheKey(of: configuration))
            """
        )
    }

    private func keepTheKey(of configuration: Configuration) -> String {
        """
        Keep a copy of \(configuration.encryption.keyFile) too, and keep it apart from this file: the two together give away the refresh \
        tokens, and without the key nobody has more than what was waiting in the queue.
        """
    }

    private struct Advice: Encodable {
        /// Shell commands.
        var backUp: String
        var restore: String
        /// Not in the backup, but needed for a restore.
        var keyFile: String
    }

    private struct Report: Encodable {
        var file: String
        var bytes: Int
        /// Not in the backup, but needed for a restore.
        var keyFile: String
    }
}

extension BackupError {
    fileprivate var sentence: String {
        switch self {
        case .exists(let path): "\(path.printable) exists already and is left as it is"
        case .unwritable(let path, let reason): "\(path.printable) cannot be written: \(reason)"
        }
    }
}
