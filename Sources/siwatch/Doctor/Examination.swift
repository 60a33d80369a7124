// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import CredentialSealing
import Foundation
import SQLiteStore

/// What a configuration, its keys and its database show on this host without a daemon.
struct Examination {
    private(set) var mistakes: [String] = []
    private(set) var findings: [Finding] = []
    /// Why the database was not examined to the end, and may be soon.
    private(set) var failure: CommandFailure?
    private(set) var keys: Keys?

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
            let state = await examine(database, configuration, opens: opensDatabase(database))
            if mistakes.isEmpty, failure == nil { findings += notes(of: configuration, state) }
        } catch {
            mistakes += error.messages
        }
    }

    @FindingList private func notes(of configuration: Configuration, _ database: String?) -> [Finding] {
        Finding(.note, "siwatch \(Version.current), \(DatabaseLocation.libraries)")
        Finding(.note, "\(configuration.source) \(keys == nil ? "is" : "and the keys that it names are") good")
        configuration.apps.map { app in
            let clients = app.clientIDs.joined(separator: ", ")
            return Finding(.note, "app \(app.name.printable): \(clients); signed with key \(app.keys[0].id) of team \(app.teamID)")
        }
        configuration.http.listen.map { listen in
            let clients = configuration.http.clients.map {
                "\($0.name.printable) (\(Set($0.may).map(\.rawValue).sorted().joined(separator: ", ")))"
            }
            return Finding(.note, "HTTP door \("\(listen)".printable): \(clients.joined(separator: ", "))")
        }
        configuration.deliveries.map { delivery in
            let authority = delivery.caFile.map { "; certified by an authority in \($0.printable)" } ?? ""
            return Finding(.note, "delivery \(delivery.name.printable): \(delivery.shownURL)\(authority)")
        }
        database.map { Finding(.note, $0) }
        if let keys, keys.ring == nil {
            Finding(.note, "key \(configuration.encryption.keyFile): not there yet; siwatch migrate creates it")
        }
    }

    /// - Returns: what is good of the database; nil if nothing can be said.
    private mutating func examine(_ database: DatabaseLocation, _ configuration: Configuration, opens: Bool) async -> String? {
        var state: String?
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
            let isThere = try server.obstacles.isEmpty && database.exists()
            // Reading beside a daemon needs the right to write too.
            if isThere, obstacles.isEmpty, opens {
                let report = try await database.openForReading().closing { store in
                    try store.check(configuration.clientsOfApps)
                    if let keys, let sealer = try configuration.sealer(of: store, keys.ring),
                        let id = try await sealer.missingKey(in: store)
                    {
                        throw CommandFailure.wrongKey(of: configuration, .unknownKey(id: id))
                    }
                    return try await StatusReport(of: configuration, in: store)
                }
                findings += (report.ofBackends + report.ofConfiguration).filter { $0.severity > .note }
                state = "database \(database.name): usable" + (database.lockHolder.map { ", and \($0) works on it" } ?? "")
            } else if !isThere {
                state = "database \(database.name): \(database.absence)"
                let canaries = configuration.apps.flatMap { app in app.canaries.map { AppUserID(app: app.name, userID: $0) } }
                findings += canaries.map { Finding(.degraded, $0.asUnknownCanary) }
            }
        } catch UnusableFile.unreadable(_) where !obstacles.isEmpty {
            // An obstacle already gives the reason.
        } catch {
            let failure = CommandFailure(database: error)
            if failure.isTransient { self.failure = failure } else { mistakes += failure.messages }
        }
        mistakes += obstacles
        return state
    }
}
