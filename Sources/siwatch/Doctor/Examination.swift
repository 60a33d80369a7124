// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// What a configuration, its keys and its database show on this host without a daemon, for `check` and `doctor`.
struct Examination {
    /// What keeps siwatch from a start.
    private(set) var mistakes: [String] = []
    private(set) var findings: [Finding] = []
    /// Why the database was not examined to the end, and may be soon.
    private(set) var failure: CommandFailure?
    /// Nil if they cannot be read.
    private(set) var keys: Keys?
    private(set) var database: DatabaseLocation?
    /// Whether the database is there and siwatch's.
    private(set) var isThere = false

    /// - Parameter opensDatabase: whether to look into the tables too.
    init(_ configuration: Configuration, opensDatabase: (DatabaseLocation) -> Bool = { _ in true }) async {
        findings = configuration.warnings.map { Finding(.degraded, "\(configuration.source): \($0)") }
        // systemd makes the folder of the unit at its start.
        if case .socket(let path) = configuration.http.listen, !path.hasPrefix("/run/siwatch/"),
            let problem = UnixSocket.missingFolder(of: path)
        {
            findings.append(Finding(.degraded, "\(configuration.source): http.listen: \(problem)"))
        }
        // The daemon can read them, and does at each reload.
        let hidden =
            FileNames.areCredentialsHidden ? configuration.files.map(\.path).filter { !FileManager.default.fileExists(atPath: $0) } : []
        findings += hidden.map { Finding(.degraded, "systemd hides the key \($0) from this command, so it was not looked at") }
        do {
            keys = try Keys(configuration)
        } catch {
            mistakes = error.messages.filter { message in !hidden.contains { message.contains($0) } }
        }
        do {
            let database = try configuration.namedDatabase()
            self.database = database
            await examine(database, configuration, opens: opensDatabase(database))
        } catch {
            mistakes += error.messages
        }
    }

    private mutating func examine(_ database: DatabaseLocation, _ configuration: Configuration, opens: Bool) async {
        if let user = database.userInPlaceOfRoot {
            findings.append(Finding(.degraded, "root may read and write what \(user) may not: run it with sudo -u \(user)"))
        }
        // Reading mends it.
        if let cut = database.cutMemory { findings.append(Finding(.degraded, "\(database.place): \(cut)")) }
        findings += [database.space?.finding].compactMap(\.self)
        var obstacles = database.obstacles(besideKey: configuration.encryption.keyFile)
        do {
            let server = try database.examineServer(clockSkew: configuration.queues.clockSkew)
            obstacles += server.obstacles
            findings += server.warnings.map { Finding(.degraded, $0) }
            isThere = try server.obstacles.isEmpty && database.exists()
            // Reading beside a daemon needs the right to write too.
            if isThere, obstacles.isEmpty, opens {
                let report = try await database.openForReading().closing { store in
                    try store.check(configuration.clientsOfApps)
                    try keys?.check(store, of: configuration)
                    return try await StatusReport(of: configuration, in: store)
                }
                findings += (report.ofBackends + report.ofConfiguration).filter { $0.severity > .note }
            } else if !isThere {
                let canaries = configuration.apps.flatMap { app in app.canaries.map { UnknownCanary(app: app.name, userID: $0) } }
                findings += canaries.map { Finding(.degraded, "\($0)") }
            }
        } catch let error as UnusableFile where error.isUnreadable && !obstacles.isEmpty {
            // An obstacle already gives the reason.
        } catch {
            let failure = CommandFailure(database: error)
            if failure.isTransient { self.failure = failure } else { mistakes += failure.messages }
        }
        mistakes += obstacles
    }
}
