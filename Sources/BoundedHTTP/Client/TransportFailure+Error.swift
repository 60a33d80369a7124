// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension TransportFailure {
    /// The failure for any error of the network stack.
    init(_ error: any Error) {
        self =
            switch error {
            case let error as HTTPClientError: Self(error)
            case let error as NIOConnectionError: Self(error)
            case let error as IOError: Self(errnoCode: error.errnoCode)
            case let error as ChannelError: Self(error)
            case NIOSSLError.uncleanShutdown, HTTPParserError.invalidEOFState: .reset
            case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: .tls
            case is Withheld: .withheld
            case is SocketAddressError, is SocketAddressError.UnknownHost: Self.unresolved
            default: .other
            }
    }

    private init(_ error: HTTPClientError) {
        self =
            switch error {
            case .connectTimeout, .readTimeout, .writeTimeout, .tlsHandshakeTimeout, .deadlineExceeded, .getConnectionFromPoolTimeout:
                .timeout
            case .remoteConnectionClosed, .uncleanShutdown, .bodyLengthMismatch, .requestStreamCancelled: .reset
            default: .other
            }
    }

    /// No address at all is a DNS failure. With addresses, the last attempt decides.
    private init(_ error: NIOConnectionError) {
        guard let attempt = error.connectionErrors.last else {
            self = error.dnsAError != nil || error.dnsAAAAError != nil ? Self.unresolved : .other
            return
        }
        self.init(attempt.error)
    }

    private init(_ error: ChannelError) {
        self =
            switch error {
            case .connectTimeout: .timeout
            case .eof, .ioOnClosedChannel, .inputClosed, .outputClosed, .alreadyClosed: .reset
            default: .other
            }
    }

    private init(errnoCode: CInt) {
        self =
            switch errnoCode {
            case ECONNREFUSED: .refused
            case ECONNRESET, ECONNABORTED, EPIPE: .reset
            case ETIMEDOUT: .timeout
            case EMFILE, ENFILE: .descriptors
            default: .other
            }
    }

    /// The failure of a lookup. The resolver needs a socket too, and does not say that it got none.
    private static var unresolved: TransportFailure {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno == EMFILE || errno == ENFILE ? .descriptors : .dns }
        close(descriptor)
        return .dns
    }
}
