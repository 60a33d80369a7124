// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
        if host.hasPrefix("["), host.hasSuffix("]"), Host.isIPv6(String(host.dropFirst().dropLast())) {
            self.init(host: String(host.dropFirst().dropLast()), port: Int(port))
        } else if Host.isName(String(host)) {
            self.init(host: String(host), port: Int(port))
        } else {
            return nil
        }
    }

    var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
