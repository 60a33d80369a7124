// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers
import NIOSSL

/// The certificate with which a server shows who it is. It may be replaced while the server runs; open connections keep the old one.
package final class ServerCertificate: Sendable {
    private let state: NIOLockedValueBox<NIOSSLContext>

    /// - Parameter chain: PEM, the server's own certificate first.
    /// - Throws: if chain or key cannot be read, or if they do not belong together. The error quotes neither.
    package init(chain: String, key: String) throws {
        state = NIOLockedValueBox(try Self.context(chain, key))
    }

    /// - Throws: as the initializer. Then the old certificate stays.
    package func replace(chain: String, key: String) throws {
        let context = try Self.context(chain, key)
        state.withLockedValue { $0 = context }
    }

    var context: NIOSSLContext { state.withLockedValue(\.self) }

    private static func context(_ chain: String, _ key: String) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(chain.utf8)).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem))
        )
        configuration.minimumTLSVersion = .tlsv12
        return try NIOSSLContext(configuration: configuration)
    }
}
