// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
package import CredentialCore
import Foundation

/// Where a database is, and in which schema of it siwatch's tables stand.
package struct PostgresAddress: Sendable {
    /// As libpq reads it, a URL or keywords and values. It may hold a password, so it is shown nowhere.
    private let server: String
    private let password: @Sendable () throws -> Secret?
    package let schema: String

    /// - Parameter password: asked for whenever a connection is made. Nil where libpq finds one itself, or none is needed.
    package init(_ server: String, schema: String = "siwatch", password: @escaping @Sendable () throws -> Secret? = { nil }) {
        self.server = server
        self.schema = schema
        self.password = password
    }

    /// The schema as SQL writes it.
    var quotedSchema: String { "\"\(schema.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\"" }

    /// Where every connection looks for tables, ours and nobody else's.
    var searchPath: String { "\(quotedSchema),pg_temp" }

    /// With what every connection of ours needs. A dead server or road is noticed within a quarter of a minute, on both sides; whoever stalls in a
    /// transaction loses it; who waits for a lock gives way. A batch is sorted in memory.
    ///
    /// - Parameters:
    ///   - isForReading: any server will do then, a standby too.
    ///   - usesIndexes: whether there is one for whatever is asked for. A plan that was made while a table was empty stays when it is full.
    ///   - longestLockWait: after which a statement gives way.
    ///
    /// - Throws: `PostgresError` where there is no password to be had.
    func parameters(isForReading: Bool, usesIndexes: Bool, longestLockWait: Duration) throws -> [(String, String)] {
        var options = [
            "search_path=\(searchPath)", "lock_timeout=\(longestLockWait.milliseconds)ms", "statement_timeout=60s",
            "idle_in_transaction_session_timeout=30s", "synchronous_commit=on", "work_mem=64MB", "tcp_user_timeout=10s",
            "tcp_keepalives_idle=5", "tcp_keepalives_interval=2",
            "default_transaction_read_only=\(isForReading ? "on" : "off")",
        ]
        // What has no index after all looks costly enough to be compiled.
        if usesIndexes { options += ["enable_seqscan=off", "jit=off"] }
        var parameters = [
            // libpq takes a whole address in the place of a name. What follows it counts more.
            ("dbname", server),
            ("options", options.map { "-c " + $0.escapingSpaces }.joined(separator: " ")),
            ("application_name", "siwatch"), ("client_encoding", "UTF8"), ("connect_timeout", "3"), ("tcp_user_timeout", "10000"),
            ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("target_session_attrs", isForReading ? "any" : "read-write"),
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

// MARK: What an address says

extension PostgresAddress {
    /// Who can read along on the road is kept out, and whoever pretends to be the server.
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
        // A socket has no place where a URL has its host.
        if let socket = places.first, socket.host.hasPrefix("/") || socket.host.hasPrefix("@") {
            let port = socket.port.isEmpty ? "" : "&port=\(socket.port)"
            return "postgresql://\(user)/\(database)?host=\(hosts.joined(separator: ","))\(port), schema \(schema)"
        }
        let names = places.map { $0.port.isEmpty ? $0.host : "\($0.host):\($0.port)" }.joined(separator: ",")
        return "postgresql://\(user)\(names)/\(database), schema \(schema)"
    }

    private static let usualPort = "5432"

    /// False where libpq could only say, and quote, what it does not understand; true where there is no libpq to say anything.
    package var isUnderstood: Bool { PostgresLibrary.problem != nil || Self.parse(server) != nil }

    /// Whether no network lies between, by the names: a socket, or a loopback address. Where the environment may name another, one may.
    private var isLocal: Bool {
        guard let hosts = part("hostaddr") ?? part("host") else {
            let environment = ProcessInfo.processInfo.environment
            return ["PGHOST", "PGHOSTADDR", "PGSERVICE"].allSatisfy { environment[$0] == nil }
        }
        return hosts.split(separator: ",", omittingEmptySubsequences: false).allSatisfy { host in
            host.isEmpty || "/@".contains(host.first!) || ["localhost", "127.0.0.1", "::1"].contains(host)
        }
    }

    /// The `sslmode` that siwatch asks for where the address does not say and the server may be elsewhere.
    package var addedMode: String? { !isLocal && part("sslmode") == nil ? Self.safeMode : nil }

    /// The `sslmode` that lets somebody between read along or pretend to be the server; nil where nobody can.
    package var unsafeMode: String? {
        guard !isLocal, let mode = part("sslmode"), mode != Self.safeMode else { return nil }
        return mode
    }

    /// Why the text is no address to be written into a configuration, as the end of a sentence.
    package static func problem(of text: String) -> String? {
        guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") else {
            return "must be postgresql://user@host:port/database, with ?host=/folder for a socket"
        }
        if let problem = PostgresLibrary.problem { return "cannot be used: \(problem)" }
        guard let parts = parse(text) else { return "is not a URL that libpq understands" }
        if parts["password"] != nil || parts["sslpassword"] != nil {
            return "must not hold a password; name a file that holds it in database.password_file"
        }
        if parts["service"] != nil { return "must name the server itself, and no service of a file of libpq's" }
        let keywords = ["options", "application_name", "client_encoding", "target_session_attrs", "replication"]
        let ours = keywords.filter { parts[$0] != nil }
        return ours.isEmpty ? nil : "must not set \(ours.joined(separator: ", ")), which siwatch sets itself"
    }

    /// What the address itself says: the environment and the defaults are not in it.
    private func part(_ name: String) -> String? { Self.parse(server)?[name] }

    /// By libpq's keywords; nil where it is no address, or there is no libpq.
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
    fileprivate var escapingSpaces: String {
        String(flatMap { " \\".contains($0) ? ["\\", $0] : [$0] })
    }
}
