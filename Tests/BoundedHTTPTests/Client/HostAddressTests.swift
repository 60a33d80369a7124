// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import BoundedHTTP

struct HostAddressTests {
    @Test(arguments: [
        ("169.254.169.254", true), ("0.0.0.0", true), ("224.0.0.1", true), ("100.100.100.200", true), ("10.0.0.1", false),
        ("127.0.0.1", false), ("192.168.1.1", false), ("8.8.8.8", false), ("::", true), ("::1", false), ("fe80::1", true),
        ("fe80::1%eth0", true), ("::ffff:169.254.169.254", true), ("64:ff9b::a9fe:a9fe", true), ("fd00:ec2::254", true), ("ff02::1", true),
        ("fd00:ec2::23", true), ("fd20:ce::254", true), ("fd20:ce::253", false), ("168.63.129.16", true), ("168.63.129.17", false),
        ("2001:db8::1", false), ("rubbish", true),
    ])
    func anAddressThatHandsOutCredentialsIsRefused(_ address: String, _ isDangerous: Bool) {
        #expect(HostAddress.isDangerous(address) == isDangerous)
    }

    @Test(arguments: [
        ("127.0.0.1", true), ("10.1.2.3", true), ("172.16.0.1", true), ("172.32.0.1", false), ("192.168.1.1", true), ("192.169.1.1", false),
        ("100.64.0.1", true), ("100.128.0.1", false), ("169.254.1.1", true), ("17.1.1.1", false), ("::1", true), ("fd00::1", true),
        ("fe80::1", true), ("2620:149::1", false),
    ])
    func nobodyComesToAPrivateAddressFromOutside(_ address: String, _ isPrivate: Bool) {
        #expect(HostAddress.isPrivate(address) == isPrivate)
    }

    @Test func aHostIsJudgedByItsAddresses() throws {
        #expect(throws: HostAddress.Refused.self) { try HostAddress.resolve("169.254.169.254", allowingAny: false) }
        #expect(throws: HostAddress.Refused.self) { try HostAddress.resolve("[::ffff:169.254.169.254]", allowingAny: false) }
        // Written otherwise, as the resolver takes it.
        #expect(throws: HostAddress.Refused.self) { try HostAddress.resolve("0xa9fea9fe", allowingAny: false) }
        #expect(try HostAddress.resolve("169.254.169.254", allowingAny: true) == ["169.254.169.254"])
        #expect(try HostAddress.resolve("127.0.0.1", allowingAny: false) == ["127.0.0.1"])
    }
}
