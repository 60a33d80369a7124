// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
package import CredentialCore
import Foundation

/// The address of a database, and the schema in it that holds siwatch's tables.
package struct PostgresAddress: Sendable {
    /// In libpq's format: a URL, or keywords and values. It may hold a password, so siwatch shows it nowhere.
    private let server: String
    private let password: @Sendable () throws -> Secret?
    package let schema: String

    /// - Parameter password: called for each new connection. Nil if libpq finds a password itself, or none is needed.
    package init(_ server: String, schema: String = "siwatch", password: @escaping @Sendable () throws -> Secret? = { nil }) {
        self.server = server
        self.schema = schema
        self.password = password
    }

    var quotedSchema: String { "\"\(schema.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\"" }

    /// Every connection looks for tables here, and in no other schema.
    var searchPath: String { "\(quotedSchema),pg_temp" }

    /// The address, with the parameters that each of siwatch's connections needs. Both sides notice a dead server or network within a
    /// quarter of a minute. A client that stalls in a transaction loses it. A statement that waits for a lock gives way.
    /// - Throws: `PostgresError` if there is no password.
    func parameters(of kind: SessionKind) throws -> [(String, String)] {
        var options = [
            "search_path=\(searchPath)", "lock_timeout=\(kind.longestLockWait.milliseconds)ms", "statement_timeout=60s",
            "idle_in_transaction_session_timeout=30s", "synchronous_commit=on", "work_mem=64MB", "tcp_user_timeout=10s",
            "tcp_keepalives_idle=5", "tcp_keepalives_interval=2",
            "default_transaction_isolation=read committed",
            "default_transaction_read_only=\(kind.isForReading ? "on" : "off")",
        ]
        // A query without an index looks costly enough for the server to compile it.
        if kind.usesIndexes { options += ["enable_seqscan=off", "jit=off"] }
        var parameters = [
            // libpq takes a whole address in place of a name. The parameters after it override it.
            ("dbname", server),
            ("options", options.map { "-c " + $0.escapingSpaces }.joined(separator: " ")),
            ("application_name", "siwatch"), ("client_encoding", "UTF8"), ("connect_timeout", "3"), ("tcp_user_timeout", "10000"),
            ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("target_session_attrs", kind.isForReading ? "any" : "read-write"),
        ]
        do {
            if let password = try password() { parameters.append(("password", password.reveal)) }
        } catch {
            throw PostgresError(connection: "\(error)")
        }
        if let addedMode { parameters.append(("sslmode", addedMode)) }
        return parameters
    }
}

struct SessionKind {
    /// Whether any server will do, also a standby.
    var isForReading = false
    /// Whether every query has an index. A plan that the server made for an empty table stays when the table is full.
    var usesIndexes = false
    var longestLockWait = Duration.seconds(10)
}

extension PostgresAddress {
    /// The mode that stops eavesdroppers and false servers.
    private static let safeMode = "verify-full"

    /// For people, without a secret: a URL, and the schema.
    package var description: String {
        let hosts = (part("host") ?? part("hostaddr"))?.split(separator: ",").map(String.init) ?? ["localhost"]
        let ports = part("port")?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? []
        let places = hosts.enumerated().map { index, host in
            let port = index < ports.count ? ports[index] : ports.last ?? ""
            return (host: host, port: port == Self.usualPort ? "" : port)
        }
        let user = part("user").map { "\($0)@" } ?? ""
        let database = part("dbname") ?? part("user") ?? ""
        // A URL has no place for a socket where it has its host.
        if let socket = places.first, socket.host.hasPrefix("/") || socket.host.hasPrefix("@") {
            let port = socket.port.isEmpty ? "" : "&port=\(socket.port)"
            return "postgresql://\(user)/\(database)?host=\(hosts.joined(separator: ","))\(port), schema \(schema)"
        }
        let names = places.map { $0.port.isEmpty ? $0.host : "\($0.host):\($0.port)" }.joined(separator: ",")
        return "postgresql://\(user)\(names)/\(database), schema \(schema)"
    }

    private static let usualPort = "5432"

    /// False if libpq does not understand the address. Its error would quote the address. True if there is no libpq.
    package var isUnderstood: Bool { PostgresLibrary.problem != nil || Self.parse(server) != nil }

    /// Whether the names show that no network lies between: a socket, or a loopback address. False if the environment may name another
    /// host.
    private var isLocal: Bool {
        guard let hosts = part("hostaddr") ?? part("host") else {
            let environment = ProcessInfo.processInfo.environment
            return ["PGHOST", "PGHOSTADDR", "PGSERVICE"].allSatisfy { environment[$0] == nil }
        }
        return hosts.split(separator: ",", omittingEmptySubsequences: false).allSatisfy { host in
            host.isEmpty || "/@".contains(host.first!) || ["localhost", "127.0.0.1", "::1"].contains(host)
        }
    }

    /// The `sslmode` that siwatch adds if the address names none and the server may be elsewhere.
    package var addedMode: String? { !isLocal && part("sslmode") == nil ? Self.safeMode : nil }

    /// An `sslmode` that does not stop eavesdroppers and false servers; nil if there is no such danger.
    package var unsafeMode: String? {
        guard !isLocal, let mode = part("sslmode"), mode != Self.safeMode else { return nil }
        return mode
    }

    /// Why the text cannot be an address in a configuration, as the end of a sentence.
    package static func problem(of text: String) -> String? {
        guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") else {
            return "must be postgresql://user@host:port/database, with ?host=/folder for a socket"
        }
        if let problem = PostgresLibrary.problem { return "cannot be used: \(problem)" }
        guard let parts = parse(text) else {
            // Other libraries take it there.
            let namesSchema = text.contains(/[?&](schema|currentSchema|search_path)=/)
            return namesSchema ? "must not name the schema; name it in database.schema" : "is not a URL that libpq understands"
        }
        if parts["password"] != nil || parts["sslpassword"] != nil {
            return "must not hold a password; name a file that holds it in database.password_file"
        }
        // libpq reads them only to connect.
        let ports = parts["port"]?.split(separator: ",") ?? []
        guard ports.allSatisfy({ UInt16($0) ?? 0 > 0 }) else { return "must name ports from 1 to 65535" }
        if parts["service"] != nil { return "must name the server itself, and no service of a file of libpq's" }
        let keywords = ["options", "application_name", "client_encoding", "target_session_attrs", "replication"]
        let ours = keywords.filter { parts[$0] != nil }
        return ours.isEmpty ? nil : "must not set \(ours.joined(separator: ", ")), which siwatch sets itself"
    }

    /// A part of the address itself, without the environment and the defaults.
    private func part(_ name: String) -> String? { Self.parse(server)?[name] }

    /// The parts, by libpq's keywords; nil if the text is no address, or there is no libpq.
    private static func parse(_ text: String) -> [String: String]? {
        guard PostgresLibrary.problem == nil, let options = PQconninfoParse(text, nil) else { return nil }
        defer { PQconninfoFree(options) }
        var parts: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { parts[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return parts
    }
}

extension String {
    fileprivate var escapingSpaces: String { String(flatMap { " \\".contains($0) ? ["\\", $0] : [$0] }) }
}

/// The libpq of this machine. siwatch loads it on first use.
package enum PostgresLibrary {
    package static var version: String? {
        guard problem == nil else { return nil }
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }

    /// Why siwatch cannot use libpq; nil if it can.
    static var problem: String? { CLibpqProblem().map { String(cString: $0) } }
}
