// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

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
        let inner = String(host.dropFirst().dropLast())
        if host.hasPrefix("["), host.hasSuffix("]"), HostAddress.bytes(of: inner)?.count == 16 {
            self.init(host: inner, port: Int(port))
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
        if host == "localhost" { return true }
        guard let bytes = HostAddress.bytes(of: host) else { return false }
        return bytes.count == 4 ? bytes[0] == 127 : bytes[15] == 1 && bytes.dropLast().allSatisfy { $0 == 0 }
    }

    /// Whether the text is a name or an IPv4 address: letters, digits, dots and hyphens.
    static func isName(_ host: String) -> Bool {
        !host.isEmpty && host.utf8.allSatisfy { $0.isLetterOrDigit || "-.".utf8.contains($0) }
    }
}
