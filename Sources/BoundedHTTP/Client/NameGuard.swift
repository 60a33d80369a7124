// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore
import NIOHTTP1
import NIOSSL

/// Sends nothing to a server whose certificate does not name the host of the request.
///
/// swift-nio-ssl also takes a certificate for the address that it has connected to, although it was given a name. An attacker can get a
/// certificate for an own address, lead Apple's name to that address, and pass for Apple.
final class NameGuard: ChannelOutboundHandler {
    typealias OutboundIn = HTTPClientRequestPart

    private let names: [String]
    private var isRefused = false

    /// - Parameter certificate: of the server, found valid for its name or its address.
    init(_ certificate: NIOSSLCertificate?) {
        let names = certificate?._subjectAlternativeNames().filter { $0.nameType == .dnsName } ?? []
        self.names = names.map { name in name.contents.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self).lowercased() } }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if !isRefused, case .head(let head) = unwrapOutboundIn(data), !covers(head.headers.first(name: "host") ?? "") {
            isRefused = true
            // Not at once, because async-http-client is in the middle of a write.
            context.eventLoop.assumeIsolated().execute {
                context.fireErrorCaught(NIOSSLExtraError.failedToValidateHostname)
                context.close(promise: nil)
            }
        }
        if isRefused {
            promise?.fail(NIOSSLExtraError.failedToValidateHostname)
        } else {
            context.write(data, promise: promise)
        }
    }

    private func covers(_ authority: String) -> Bool {
        let host = authority.lowercased().split(separator: ":", maxSplits: 1).first.map(String.init) ?? ""
        let isAddress = authority.hasPrefix("[") || (try? SocketAddress(ipAddress: host, port: 0)) != nil
        return isAddress || names.contains { Self.name($0, covers: host) }
    }

    /// - Parameter name: of a certificate. A star stands for one label.
    static func name(_ name: String, covers host: String) -> Bool {
        guard name.hasPrefix("*.") else { return name == host }
        guard let dot = host.firstIndex(of: "."), dot != host.startIndex else { return false }
        return host[dot...] == name.dropFirst()
    }
}
