// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The addresses that a host has. Clouds offer their machines a service that hands out credentials to any program there, and a name may
/// lead to it.
package enum HostAddress {
    package struct Refused: Error, CustomStringConvertible {
        package let description: String
    }

    /// Looks a host up, on the thread of the caller.
    ///
    /// - Throws: `Refused` if the host has no address, or one that may not be reached.
    package static func resolve(_ host: String, allowingAny: Bool) throws(Refused) -> [String] {
        let addresses = try addresses(of: host)
        if !allowingAny, addresses.contains(where: isDangerous) {
            throw Refused(description: "its host leads to an address of this network alone, where clouds hand out credentials")
        }
        return addresses
    }

    /// Whether a host is written as an address that `resolve` refuses, in any form that the system's resolver takes. A name is not looked up.
    package static func isDangerousAsWritten(_ host: String) -> Bool {
        (try? addresses(of: String(host.prefix { $0 != "%" }), AI_NUMERICHOST))?.contains(where: isDangerous) ?? false
    }

    /// - Parameter flags: of getaddrinfo(3).
    /// - Returns: numeric addresses, at least one, the best first.
    package static func addresses(of host: String, _ flags: Int32 = 0) throws(Refused) -> [String] {
        let host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        var hints = addrinfo()
        hints.ai_flags = flags
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0, let first = list else { throw Refused(description: "its host has no address") }
        defer { freeaddrinfo(first) }
        var addresses: [String] = []
        for info in sequence(first: first, next: { $0.pointee.ai_next }) {
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            guard getnameinfo(info.pointee.ai_addr, info.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
            else { continue }
            addresses.append(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }
        guard !addresses.isEmpty else { throw Refused(description: "its host has no address") }
        return addresses
    }

    /// Whether an address is of this machine or of a private network, so that nobody comes to it from outside.
    package static func isPrivate(_ address: String) -> Bool {
        guard let bytes = bytes(ofScoped: address) else { return true }
        if bytes.count == 4 {
            return [10, 127].contains(bytes[0]) || bytes[0] == 172 && bytes[1] & 0xf0 == 16 || bytes[0] == 192 && bytes[1] == 168
                || bytes[0] == 100 && bytes[1] & 0xc0 == 64 || isDangerous(bytes)
        }
        return bytes[0] & 0xfe == 0xfc || bytes.dropLast().allSatisfy { $0 == 0 } || isDangerous(bytes)
    }

    /// Whether an address is link-local, unspecified or multicast, or is where a cloud answers its machines.
    static func isDangerous(_ address: String) -> Bool { bytes(ofScoped: address).map(isDangerous) ?? true }

    /// The address may end in a scope, such as `%eth0`.
    private static func bytes(ofScoped address: String) -> [UInt8]? { bytes(of: String(address.prefix { $0 != "%" })) }

    /// Four or sixteen bytes; nil for what is no address.
    package static func bytes(of address: String) -> [UInt8]? {
        var four = in_addr()
        if inet_pton(AF_INET, address, &four) == 1 { return withUnsafeBytes(of: four) { Array($0) } }
        var six = in6_addr()
        return inet_pton(AF_INET6, address, &six) == 1 ? withUnsafeBytes(of: six) { Array($0) } : nil
    }

    private static func isDangerous(_ bytes: [UInt8]) -> Bool {
        if bytes.count == 4 {
            // Alibaba's machines ask at 100.100.100.200, Oracle's at 192.0.0.192, Azure's at 168.63.129.16.
            return bytes[0] == 0 || bytes[0] == 169 && bytes[1] == 254 || bytes[0] >= 224
                || [[100, 100, 100, 200], [192, 0, 0, 192], [168, 63, 129, 16]].contains(bytes)
        }
        // An IPv4 address within IPv6: mapped, or translated by NAT64.
        if bytes.prefix(10).allSatisfy({ $0 == 0 }), bytes[10] == 0xff, bytes[11] == 0xff { return isDangerous(Array(bytes[12...])) }
        if bytes.prefix(12) == [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0] { return isDangerous(Array(bytes[12...])) }
        return bytes[0] == 0xff || bytes[0] == 0xfe && bytes[1] & 0xc0 == 0x80 || bytes.allSatisfy { $0 == 0 }
            || clouds.contains(bytes)
    }

    /// fd00:ec2::254 of AWS, fd00:ec2::23 of its EKS Pod Identity, fd20:ce::254 of Google.
    private static let clouds: [[UInt8]] = [
        [0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54],
        [0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x23],
        [0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54],
    ]
}
