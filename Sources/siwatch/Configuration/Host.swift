// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// Judges a host by its text, without a resolver.
enum Host {
    /// `localhost`, 127.0.0.0/8 or ::1. A name that only begins like one of these does not count.
    static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || bytes(of: host, AF_INET, count: 4)?.first == 127
            || bytes(of: host, AF_INET6, count: 16) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    }

    static func isIPv6(_ host: String) -> Bool {
        bytes(of: host, AF_INET6, count: 16) != nil
    }

    /// Whether the text is a name or an IPv4 address: letters, digits, dots and hyphens.
    static func isName(_ host: String) -> Bool {
        !host.isEmpty && host.utf8.allSatisfy { $0.isLetterOrDigit || "-.".utf8.contains($0) }
    }

    /// - Returns: nil if the text is not a numeric address of the family.
    private static func bytes(of host: String, _ family: Int32, count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return inet_pton(family, host, &bytes) == 1 ? bytes : nil
    }
}
