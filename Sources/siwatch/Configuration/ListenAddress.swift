// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// A host and a port, as in `127.0.0.1:9464` or `[::1]:9464`.
struct ListenAddress: Sendable, Equatable {
    /// A name or an address. An IPv6 address has no brackets here.
    var host: String
    /// 0 lets the system choose.
    var port: Int
}

extension ListenAddress: LosslessStringConvertible {
    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let (host, digits) = (text[..<colon], text[colon...].dropFirst())
        guard digits.utf8.allSatisfy(\.isDigit), let port = UInt16(digits) else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]"), Host.isIPv6(String(host.dropFirst().dropLast())) {
            self.init(host: String(host.dropFirst().dropLast()), port: Int(port))
        } else if Host.isName(String(host)) {
            self.init(host: String(host), port: Int(port))
        } else {
            return nil
        }
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Judges a host by its text, without a resolver.
enum Host {
    /// `localhost`, 127.0.0.0/8 or ::1. A name that only begins like one of these does not count.
    static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || bytes(of: host, AF_INET, count: 4)?.first == 127
            || bytes(of: host, AF_INET6, count: 16) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    }

    static func isIPv6(_ host: String) -> Bool { bytes(of: host, AF_INET6, count: 16) != nil }

    /// Whether the text is a name or an IPv4 address: letters, digits, dots and hyphens.
    static func isName(_ host: String) -> Bool {
        !host.isEmpty && host.utf8.allSatisfy { $0.isLetterOrDigit || "-.".utf8.contains($0) }
    }

    private static func bytes(of host: String, _ family: Int32, count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return inet_pton(family, host, &bytes) == 1 ? bytes : nil
    }
}
