// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Logging
import TOMLKit

/// Reads a configuration from TOML, or finds all of its mistakes at once.
extension Configuration {
    /// - Parameters:
    ///   - credentials: The folder of systemd's credentials. A key file there may be named without a folder.
    ///   - isTriedFirst: whether another process parses the file before, because this one must go on. It blocks the thread meanwhile.
    init(
        contentsOf path: String,
        credentials: String? = FileNames.systemCredentials,
        isTriedFirst: Bool = false
    ) throws(InvalidConfiguration) {
        let text: String
        do {
            text = try TextFile.read(path, limit: Self.longestFile)
        } catch {
            let problem = error.description + (error == .missing ? "; sudo siwatch init makes one" : "")
            throw InvalidConfiguration(source: path, mistakes: [ConfigurationMistake(place: .file, problem: problem)])
        }
        func invalid(_ mistakes: [ConfigurationMistake]) -> InvalidConfiguration {
            // No second look at a text that its parser has died of.
            let lines = KeyLines(mistakes.contains { $0.place != .file } ? text : "")
            return InvalidConfiguration(source: path, mistakes: mistakes.map { $0.found(in: lines) })
        }
        let table: TOMLTable
        do {
            if isTriedFirst { try ParserGuard.tryElsewhere(path) }
            let isGuarded = Invocation.current.isProcess && !isTriedFirst
            table = try isGuarded ? ParserGuard.parse(text, at: path) : .parse(text)
        } catch {
            throw invalid([error])
        }
        do { try self.init(table, from: path, credentials: credentials) } catch { throw invalid(error.mistakes) }
    }

    /// Reads a parsed document as if it came from the file at `path`.
    init(_ table: TOMLTable, from path: String, credentials: String? = nil) throws(InvalidConfiguration) {
        let names = FileNames(relativeTo: path, credentials: credentials)
        self.init()
        source = path
        encryption.keyFile = names.keyPath(of: encryption.keyFile)
        let mistakes = TableReader.read(&self, from: table, names).mistakes
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: path, mistakes: mistakes) }
    }

    /// By the places of their keys in the file.
    var values: [String: String] {
        var copy = self
        return TableReader.read(&copy, from: TOMLTable(), FileNames(relativeTo: source)).values
    }
}

extension Configuration: ConfigurationPart {
    /// In bytes: enough for about a thousand apps.
    private static let longestFile = 1 << 18
    /// Limited, because every commit writes the answers in the window.
    private static let longestWindow = 10_000
    /// In seconds. A process that stood still for six minutes must notice it, and does after twice this time and half a minute.
    private static let longestPollInterval = 60

    mutating func read(_ root: inout TableReader) {
        let names = root.names
        root.table("database") { database.read(&$0) }
        root.tables("app", into: &apps)
        root.table("encryption") { $0.read("key_file", .file(names.keyPath), into: &encryption.keyFile) }
        root.table("refresh") { table in
            table.read("interval", .duration, into: &refresh.interval)
            table.read("max_requests_per_second", .count, into: &refresh.maxRequestsPerSecond)
            table.read("max_concurrent_requests", .count, into: &refresh.maxConcurrentRequests)
            table.read("timeout", .duration, into: &refresh.timeout)
        }
        root.table("breaker") { table in
            table.read("window", .count(upTo: Self.longestWindow), into: &breaker.window)
            table.read("max_rejections", .count, into: &breaker.maxRejections)
            table.read("max_rejected_percent", .count(upTo: 99), into: &breaker.maxRejectedPercent)
            table.read("settle", .duration, into: &breaker.settle)
            if breaker.maxRejections >= breaker.window {
                table.note("max_rejections", "must be below breaker.window, or the breaker can never open")
            }
        }
        root.table("revocations") { table in
            table.read("max_per_hour", .count, into: &revocations.maxPerHour)
            table.read("max_percent_per_hour", .count(upTo: 100), into: &revocations.maxPercentPerHour)
        }
        root.table("queues") { table in
            table.read("poll_interval", .duration(upTo: Self.longestPollInterval), into: &queues.pollInterval)
            table.read("clock_skew", .duration, into: &queues.clockSkew)
        }
        root.table("retention") { table in
            table.read("notification_log", .retention, into: &retention.notificationLog)
            table.read("quarantine", .retention, into: &retention.quarantine)
            table.read("changes", .retention, into: &retention.changes)
            table.read("grant_log", .retention, into: &retention.grantLog)
            table.read("revocation_log", .retention, into: &retention.revocationLog)
            table.read("ended_user", .retentionOrNever, into: &retention.endedUser)
            table.read("address", .retentionOrNever, into: &retention.address)
            table.read("payload", .retention, into: &retention.payload)
            table.read("rejected_token", .retention, into: &retention.rejectedToken)
        }
        root.table("operations") { operations.read(&$0) }
        root.table("http") { http.read(&$0) }
        root.tables("delivery", into: &deliveries, mayBeMissing: true)
        for (index, delivery) in deliveries.enumerated() {
            for app in delivery.apps where !app.isEmpty && !apps.contains(where: { $0.name == app }) {
                root.note(at: "delivery[\(index)].apps", "names an app that is not configured")
            }
        }
        root.table("log") { table in
            table.read("level", .choice(), into: &log.level)
            table.read("format", .choice(), into: &log.format)
        }
        root.table("apple") { table in
            table.read("token_endpoint", .endpoint(), into: &apple.tokenEndpoint)
            table.read("revocation_endpoint", .endpoint(), into: &apple.revocationEndpoint)
            table.read("keys_endpoint", .endpoint(), into: &apple.keysEndpoint)
            table.read("issuers", .texts(.text), into: &apple.issuers)
        }
    }
}

extension Configuration.Database {
    fileprivate mutating func read(_ table: inout TableReader) {
        table.read("path", .file(table.names.path), into: &path)
        table.read("url", .databaseURL, into: &url)
        table.read("schema", .schema, into: &schema)
        table.read("password_file", .optional(.file(table.names.keyPath)), into: &passwordFile)
        if table.has("url") {
            if table.has("path") { table.note("path", "stands beside database.url: one of the two names the database") }
        } else {
            for key in ["schema", "password_file"] where table.has(key) { table.note(key, "belongs to database.url, which is missing") }
        }
    }
}

extension Configuration.Operations {
    fileprivate mutating func read(_ table: inout TableReader) {
        table.read("listen", .listenAddress, into: &listen)
        table.read("allow_remote", .flag, into: &allowRemote)
        table.read("socket", .socket(table.names.path), into: &socket)
        if let host = listen?.host, !Host.isLoopback(host), !allowRemote {
            let problem = "lets other hosts read the metrics, without a password; if you want that, set operations.allow_remote = true"
            table.note("listen", problem)
        }
    }
}

extension Configuration.App: ConfigurationPart {
    mutating func read(_ table: inout TableReader) {
        table.require("name", .name, into: &name)
        table.distinguish("name", name)
        if FleetLane.isTaken(name) { table.note("name", "has another meaning in the metrics") }
        table.require("team_id", .appleID, into: &teamID)
        table.require("client_ids", .texts(.clientID), into: &clientIDs)
        table.distinguish("client_ids", clientIDs, everywhere: true)
        table.read("canaries", .texts(.userID, mayBeEmpty: true), into: &canaries)
        table.distinguish("canaries", canaries)
        if canaries.count > BreakerRules.mostCanaries { table.note("canaries", "must be at most \(BreakerRules.mostCanaries)") }
        table.read("revocations", .flag, into: &revocations)
        table.tables("key", into: &keys)
    }
}

extension Configuration.App.Key: ConfigurationPart {
    mutating func read(_ table: inout TableReader) {
        table.require("id", .appleID, into: &id)
        table.distinguish("id", id)
        table.require("file", .file(table.names.keyPath), into: &file)
    }
}
