// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import NIOCore

/// A port of this machine that refuses every connection. It is bound, so that no other process gets it, and no socket listens there.
final class RefusingPort {
    let port: UInt16
    private let descriptor: Int32

    init() {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let any = try! SocketAddress(ipAddress: "127.0.0.1", port: 0)
        // A family and a port of two bytes each begin the address.
        var address = [UInt8](repeating: 0, count: 16)
        var length = socklen_t(address.count)
        let result = address.withUnsafeMutableBytes { bytes in
            any.withSockAddr { bind(descriptor, $0, socklen_t($1)) } == 0
                ? getsockname(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length) : -1
        }
        precondition(result == 0, "no port: \(errno)")
        self.descriptor = descriptor
        port = UInt16(address[2]) << 8 | UInt16(address[3])
    }

    deinit {
        close(descriptor)
    }
}
