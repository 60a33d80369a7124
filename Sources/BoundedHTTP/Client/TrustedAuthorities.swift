// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
import NIOSSL

/// Root certificates that a server's certificate has to lead to, in place of those that the host trusts.
package struct TrustedAuthorities: Sendable, Equatable {
    fileprivate let certificates: [NIOSSLCertificate]

    /// - Parameter pem: one certificate or more.
    /// - Throws: if there is none, or if one cannot be read. The error quotes nothing.
    package init(pem: String) throws {
        certificates = try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))
    }
}

extension HTTPClient.Configuration {
    /// Trusts these authorities and no others. For a configuration with TLS, such as `bounded`.
    package mutating func trust(_ authorities: TrustedAuthorities) {
        tlsConfiguration!.trustRoots = .certificates(authorities.certificates)
    }
}
