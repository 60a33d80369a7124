// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialTables
import Foundation
import PostgresStore
import SQLiteStore

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes one consistent copy of the database, while everything runs.",
        discussion: """
            The copy is a file of its own that needs no -wal. It holds the `sub`s and e-mail addresses of your users, and in grant_queue \
            the tokens of sign-ins that were waiting, in clear. The sealing key is not in it: keep that apart.

            Of a database on a PostgreSQL server it writes nothing, and says which command does. Where another program makes the copies, \
            --note at its end lets siwatch warn of an old one.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var progress: ProgressOptions
    @Option(help: ArgumentHelp("Write into a folder, under a name with the time, and keep so many such copies.", valueName: "number"))
    var keep: Int?
    @Flag(help: "Write nothing, and note that another program has just made a copy.") var note = false
    @Argument(help: "The file to write; it must not exist yet. With --keep, the folder.", completion: .file()) var file = ""

    func validate() throws {
        if let keep, keep < 1 { throw ValidationError("--keep is at least 1.") }
        if note != file.isEmpty { throw ValidationError("Name a file, or take --note.") }
    }

    func run() async throws {
        let configuration = try options.readConfiguration()
        let now = Invocation.current.clock.now
        if note { return try await configuration.withStore(appends: true) { try await $0.noteBackup(at: now) } }
        switch try configuration.existingDatabase() {
        case .file(let database): try await copy(database, of: configuration, at: now)
        case .server(let address): try advise(configuration, address)
        }
    }

    private func copy(_ database: DatabaseFile, of configuration: Configuration, at now: Timestamp) async throws {
        let folder = keep.map { BackupFolder(path: self.file, keep: $0) }
        let file = folder?.newFile(at: now) ?? self.file
        do {
            let reader = try SQLiteStore.openForReading(database)
            defer { try? reader.close() }
            let total = Self.size(of: database.path)
            let measure = { @Sendable in Self.size(of: SQLiteStore.draft(of: file)) }
            try await progress.line(json: output.json).follow("copying", of: total, "bytes", measure: measure) {
                try await reader.backUp(to: file)
            }
            let writer = try SQLiteStore.openBeside(database)
            defer { try? writer.close() }
            try await writer.noteBackup(at: now)
        } catch let error as BackupError {
            throw CommandFailure.failed(error.sentence)
        } catch {
            throw CommandFailure(database: error)
        }
        let (removed, broken) = try folder?.removeOld() ?? ([], [])
        let size = Self.size(of: file) ?? 0
        let old = removed.map { "\n\($0.printable): removed." } + broken.map { "\n\($0.printable): no whole copy, so it does not count." }
        try output.print(
            ["file": file, "bytes": size, "removed": removed, "keyFile": configuration.encryption.keyFile] as Members,
            "\(file.printable): \(size) bytes, verified.\(old.joined())\n\(keepTheKey(of: configuration))"
        )
    }

    private static func size(of file: String) -> Int? {
        (try? FileManager.default.attributesOfItem(atPath: file))?[.size] as? Int
    }

    /// Prints the server's own commands for a backup, after a check that this user may read every table.
    private func advise(_ configuration: Configuration, _ address: PostgresAddress) throws {
        let unreadable: [String]
        do { unreadable = try PostgresStore.unreadableTables(at: address) } catch { throw CommandFailure(database: error) }
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
            ["back_up": dump, "restore": restore, "key_file": configuration.encryption.keyFile],
            """
            A server has its own programs for that, in Debian's package postgresql-client. As the user \(NSUserName()), this writes one \
            consistent copy of siwatch's schema, while everything runs:
              \(dump)
            and this puts it back where the schema is not there, with every siwatch stopped:
              \(restore)
            End it with siwatch backup --note, so that siwatch warns of an old copy.
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
}

/// A folder of copies whose names tell their time.
private struct BackupFolder {
    var path: String
    var keep: Int

    /// Such as `siwatch-20261126T021500Z.sqlite`. The names sort by time.
    func newFile(at now: Timestamp) -> String {
        let stamp = now.text.prefix(19).filter { $0 != "-" && $0 != ":" }
        return "\(path)/siwatch-\(stamp)Z.sqlite"
    }

    /// Removes the oldest copies and the drafts of runs that were cut short. Returns the removed copies, and files of that name that are none.
    func removeOld() throws(CommandFailure) -> (removed: [String], broken: [String]) {
        do {
            let names = try FileManager.default.contentsOfDirectory(atPath: path).sorted()
            let named = names.filter { $0.wholeMatch(of: /siwatch-\d{8}T\d{6}Z\.sqlite/) != nil }.map { "\(path)/\($0)" }
            let drafts = names.filter { $0.wholeMatch(of: /siwatch-\d{8}T\d{6}Z\.sqlite\.partial/) != nil }
            for draft in drafts { SQLiteStore.removeDraft("\(path)/\(draft)") }
            let whole = named.filter { (try? DatabaseFile(path: $0).inspect()).map { $0 != .none } ?? false }
            let old = Array(whole.dropLast(keep))
            for file in old { try FileManager.default.removeItem(atPath: file) }
            return (old, named.filter { !whole.contains($0) })
        } catch {
            throw .failed("\(path.printable): an old copy cannot be removed: \(error.localizedDescription)")
        }
    }
}

extension BackupError {
    fileprivate var sentence: String {
        switch self {
        case .exists(let path): "\(path.printable) exists already and is left as it is"
        case .unwritable(let path, let reason): "\(path.printable) cannot be written: \(reason)"
        case .damaged(let path, let reason): "\(path.printable) was written and is damaged: \(reason.printable); is the disk sound?"
        }
    }
}
