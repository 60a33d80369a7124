// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What the text of a host says, asking no resolver.
enum Host {
    /// `localhost`, 127.0.0.0/8 or ::1. A name that merely begins like one of them is none.
    static func isLoopback(_ host: String) -> Bool {
        var address = in_addr()
        if inet_pton(AF_INET, host, &address) == 1 { return UInt32(bigEndian: address.s_addr) >> 24 == 127 }
        var wide = in6_addr()
        if inet_pton(AF_INET6, host, &wide) == 1 { return withUnsafeBytes(of: wide) { $0.dropLast().allSatisfy { $0 == 0 } && $0.last == 1 } }
        return host == "localhost"
    }

    static func isIPv6(_ host: String) -> Bool {
        var address = in6_addr()
        return inet_pton(AF_INET6, host, &address) == 1
    }

    /// A name or an IPv4 address: letters, digits, dots and hyphens.
    static func isName(_ host: String) -> Bool {
        !host.isEmpty && host.utf8.allSatisfy { $0.isLetterOrDigit || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
    }
}
