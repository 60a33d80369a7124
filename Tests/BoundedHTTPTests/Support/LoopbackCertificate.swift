// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import NIOSSL

/// An untrusted certificate, and its key, which is no secret.
enum LoopbackCertificate {
    static func serverContext() throws -> NIOSSLContext {
        let certificate = try NIOSSLCertificate(bytes: Array(certificate.utf8), format: .pem)
        let key = try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem)
        return try NIOSSLContext(
            configuration: .makeServerConfiguration(certificateChain: [.certificate(certificate)], privateKey: .privateKey(key))
        )
    }

    /// For a client that is to trust it.
    static func authorities() throws -> TrustedAuthorities { try TrustedAuthorities(pem: certificate) }

    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8QECG8oQMRuUJWuw
        oJHu7OsI3QJs1aFLIY7behswF++hRANCAARSsoo3xXD9VsbvklbvfAKiFxNeJAU1
        jAR02Eb0IUAQTY8UnDBI/Lc9Qi5FuP2AHQV7Sc3IMQ2+C2+lL4YRIbU5
        -----END PRIVATE KEY-----
        """

    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBjzCCATagAwIBAgIUY6B/lLhXW8waXxBSYQU5xWsNGoQwCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyMjA1NDA1NloYDzIxMjYxMDI5
        MDU0MDU2WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
        PQMBBwNCAARSsoo3xXD9VsbvklbvfAKiFxNeJAU1jAR02Eb0IUAQTY8UnDBI/Lc9
        Qi5FuP2AHQV7Sc3IMQ2+C2+lL4YRIbU5o2QwYjAdBgNVHQ4EFgQUCGa4X1LCPyRm
        wbvbLZSYeTkP1jEwHwYDVR0jBBgwFoAUCGa4X1LCPyRmwbvbLZSYeTkP1jEwDwYD
        VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQC
        IA3wo0XPiL6IQ3CYUd88xEfaWA0Flg/AxTCpYw5X9185AiBpXZaVYhweXAGK0H41
        iIumKIRuqZGz0tG2WplKw3fmZg==
        -----END CERTIFICATE-----
        """
}
