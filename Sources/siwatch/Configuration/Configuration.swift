// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Logging
import PostgresStore

/// The content of `siwatch.toml`. The values here are the defaults. docs/configuration.toml explains each.
struct Configuration: Sendable, Equatable {
    /// The file that it was read from.
    var source = "siwatch.toml"

    var database = Database()
    /// After reading, there is at least one app.
    var apps: [App] = []
    var encryption = Encryption()
    var refresh = Refresh()
    var breaker = Breaker()
    var revocations = RevocationLimitRules()
    var queues = Queues()
    var retention = Retention()
    var operations = Operations()
    var http = HTTP()
    var deliveries: [Delivery] = []
    var log = Log()
    var apple = Apple()

    struct Database: Sendable, Equatable {
        var path = "/var/lib/siwatch/siwatch.sqlite"
        /// Of a database on a PostgreSQL server. Nil if siwatch uses an SQLite file.
        var url: String?
        var schema = "siwatch"
        /// Nil if libpq finds a password by itself, or if no password is needed.
        var passwordFile: String?
    }

    /// One Apple app group: the primary App ID and its Services IDs. Users grant and withdraw consent for the group.
    struct App: Sendable, Equatable {
        var name = ""
        var teamID = ""
        var clientIDs: [String] = []
        /// The first key signs. There is more than one only during a change of keys.
        var keys: [Key] = []
        /// Users that the operator knows to be good, by their `sub`.
        var canaries: [String] = []
        /// Whether Apple may be asked to revoke.
        var revocations = true

        struct Key: Sendable, Equatable {
            var id = ""
            var file = ""
        }
    }

    struct Encryption: Sendable, Equatable {
        var keyFile = "siwatch.key"
    }

    /// The limits hold for each app.
    struct Refresh: Sendable, Equatable {
        var interval = Duration.hours(24)
        var maxRequestsPerSecond = 50
        var maxConcurrentRequests = 64
        var timeout = Duration.seconds(15)
    }

    /// When Apple's rejections are not believed. The figures hold for each app.
    struct Breaker: Sendable, Equatable {
        var window = 500
        var maxRejections = 20
        var maxRejectedPercent = 5
        var settle = Duration.minutes(15)
    }

    struct Queues: Sendable, Equatable {
        var pollInterval = Duration.seconds(1)
        var clockSkew = Duration.minutes(5)
    }

    struct Operations: Sendable, Equatable {
        /// Nil if siwatch serves nothing.
        var listen: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 9464)
        var allowRemote = false
        /// The Unix socket at which `siwatch status` asks the daemon. Nil if there is none.
        var socket: String? = "/run/siwatch/siwatch.sock"

        /// Where `siwatch status` asks the daemon: the socket first, because nobody else can answer there. A port that the system has chosen
        /// is unknown.
        var places: [HTTP.Listen] {
            (socket.map { [.socket($0)] } ?? []) + (listen.flatMap { $0.port == 0 ? nil : [.address($0)] } ?? [])
        }
    }

    struct Log: Sendable, Equatable {
        var level = Logger.Level.info
        var format = Format.auto

        enum Format: String, Sendable, CaseIterable {
            /// `text` on a terminal and in the journal, `json` elsewhere.
            case auto
            case text
            case json
        }
    }

    /// Only tests and the simulator change these.
    struct Apple: Sendable, Equatable {
        var tokenEndpoint = URL(string: "https://appleid.apple.com/auth/token")!
        var revocationEndpoint = URL(string: "https://appleid.apple.com/auth/revoke")!
        var keysEndpoint = URL(string: "https://appleid.apple.com/auth/keys")!
        var issuers = ["https://appleid.apple.com"]
    }
}

extension Configuration {
    /// What is legal but probably not meant.
    var warnings: [ConfigurationMistake] {
        var warnings: [ConfigurationMistake] = []
        if refresh.interval < .hours(24), apple.tokenEndpoint == Apple().tokenEndpoint {
            let problem = "is below 24h, and Apple may throttle those who validate a token more often than once a day"
            warnings.append(.at("refresh.interval", problem))
        }
        let endpoints = [
            ("token_endpoint", \Apple.tokenEndpoint), ("revocation_endpoint", \.revocationEndpoint), ("keys_endpoint", \.keysEndpoint),
        ]
        for (key, endpoint) in endpoints where apple[keyPath: endpoint] != Apple()[keyPath: endpoint] {
            let host = apple[keyPath: endpoint].host() ?? ""
            warnings.append(.at("apple.\(key)", "is not Apple's, and siwatch sends what it would send to Apple to \(host)"))
        }
        if let mode = database.url.flatMap({ PostgresAddress($0).unsafeMode }) {
            let problem = "says sslmode=\(mode): only verify-full keeps out an attacker who pretends to be the server"
            warnings.append(.at("database.url", problem))
        }
        if let owner = HostFile(source)?.foreignOwner {
            warnings.append(ConfigurationMistake(place: .file, problem: "belongs to \(owner), who can change which servers get the tokens"))
        }
        for stranger in strangersInGroup {
            let mend = "sudo gpasswd -d \(stranger.shellQuoted) siwatch takes it out, and backends join siwatch-backend"
            let problem = "belongs to the group siwatch, as the keys do, and \(stranger) is a member of it; \(mend)"
            warnings.append(ConfigurationMistake(place: .file, problem: problem))
        }
        return warnings
    }
}
