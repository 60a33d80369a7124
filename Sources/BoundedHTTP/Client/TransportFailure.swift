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

/// Why no answer came, as the label of a metric.
package enum TransportFailure: String, Error, Sendable, CaseIterable {
    /// The deadline passed, in any phase of the exchange.
    case timeout
    case tls
    case dns
    case refused
    /// The connection was reset, or closed before the answer was complete.
    case reset
    /// This process or the machine may open no more files and sockets. Nothing was sent.
    case descriptors
    /// The request was no longer allowed. Nothing was sent.
    case withheld
    case other

    /// For people, as the end of a sentence.
    package var words: String { self == .tls ? "no TLS 1.2 connection with a valid certificate" : rawValue }

    /// Whether the server may have read the request and acted on it.
    package var mayHaveArrived: Bool {
        switch self {
        case .tls, .dns, .refused, .descriptors, .withheld: false
        case .timeout, .reset, .other: true
        }
    }
}

extension TransportFailure {
    init(_ error: any Error) {
        self =
            switch error {
            case let error as HTTPClientError: Self(error)
            case ChannelError.connectTimeout: .timeout
            case ChannelError.eof, ChannelError.ioOnClosedChannel, ChannelError.inputClosed, ChannelError.outputClosed,
                ChannelError.alreadyClosed, NIOSSLError.uncleanShutdown, HTTPParserError.invalidEOFState:
                .reset
            // With addresses, the last attempt decides. No address at all is a failure of DNS.
            case let error as NIOConnectionError:
                error.connectionErrors.last.map { Self($0.error) }
                    ?? (error.dnsAError != nil || error.dnsAAAAError != nil ? Self.unresolved : .other)
            case let error as IOError: Self(errnoCode: error.errnoCode)
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
