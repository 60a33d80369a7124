// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import Foundation

extension Configuration {
    /// The door for backends. Off unless `listen` is there.
    struct HTTP: Sendable, Equatable {
        var listen: Listen?
        /// Of a Unix socket, in octal digits.
        var socketMode = "660"
        /// Other hosts may come in. Then there is a certificate.
        var allowRemote = false
        var certificateFile: String?
        var certificateKeyFile: String?
        /// Where Apple posts notifications, as it is registered there.
        var notificationsURL: URL?
        /// For each client, and for Apple's notifications.
        var maxRequestsPerSecond = 1000
        var clients: [Client] = []

        enum Listen: Sendable, Equatable, CustomStringConvertible {
            case address(ListenAddress)
            case socket(String)

            var description: String {
                switch self {
                case .address(let address): "\(address)"
                case .socket(let path): path
                }
            }
        }

        struct Client: Sendable, Equatable {
            var name = ""
            /// Two while a token changes.
            var tokenFiles: [String] = []
            var may: [Right] = []
        }
    }
}

extension Configuration.HTTP {
    mutating func read(_ table: inout TableReader) {
        let names = table.names
        table.read("listen", .httpListen(names.path), into: &listen)
        table.read("socket_mode", .socketMode, into: &socketMode)
        table.read("allow_remote", .flag, into: &allowRemote)
        table.read("certificate_file", .optional(.file(names.keyPath)), into: &certificateFile)
        table.read("certificate_key_file", .optional(.file(names.keyPath)), into: &certificateKeyFile)
        table.read("notifications_url", .optional(.endpoint(mayHaveQuery: true)), into: &notificationsURL)
        table.read("max_requests_per_second", .count(upTo: 1_000_000), into: &maxRequestsPerSecond)
        table.tables("client", into: &clients, mayBeMissing: true)
        if (certificateFile == nil) != (certificateKeyFile == nil) {
            table.note("certificate_file", "and http.certificate_key_file belong together")
        }
        if listen == nil, !clients.isEmpty { table.note("listen", "is missing, so that no client could ask") }
        if listen == nil, notificationsURL != nil { table.note("listen", "is missing, so that nothing could lead here") }
        if case .address(let address) = listen, !Host.isLoopback(address.host), !allowRemote || certificateFile == nil {
            let problem = "lets other hosts in: that needs http.allow_remote = true and a certificate, so that no token travels in clear"
            table.note("listen", problem)
        }
    }
}

extension Configuration.HTTP.Client: ConfigurationPart {
    mutating func read(_ table: inout TableReader) {
        table.require("name", .name, into: &name)
        table.distinguish("name", name)
        table.require("token_files", .texts(.file(table.names.keyPath)), into: &tokenFiles)
        table.require("may", .list(of: .choice()), into: &may)
    }
}

extension ValueRule<Configuration.HTTP.Listen?> {
    static func httpListen(_ resolve: @escaping (String) -> String = \.self) -> ValueRule {
        .string("must be host:port, such as \"127.0.0.1:9465\", the path of a Unix socket of at most 107 bytes, or \"\" for none") { text in
            if text.isEmpty { return .some(nil) }
            if text.contains("/") { return text.isSocketPath ? .socket(resolve(text)) : nil }
            return ListenAddress(text).map { .address($0) }
        }
    }
}

extension ValueRule<String> {
    fileprivate static var socketMode: ValueRule {
        .string("must be three octal digits, such as \"660\"") { $0.wholeMatch(of: /[0-7]{3}/) == nil ? nil : $0 }
    }
}
