// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import NIOSSL

/// Issues certificates that nobody trusts unless a test says so.
struct CertificateAuthority {
    private let folder: WatchedFolder

    /// Its own certificate, as PEM.
    var certificatePath: String { path("authority.pem") }

    /// Keeps its files in a folder, and is named after it: of two with one name, a client may try the wrong one.
    init(in folder: WatchedFolder) async throws {
        self.folder = folder
        try await openssl(
            ["req", "-x509", "-days", "2", "-subj", "/CN=\(folder.url.lastPathComponent)", "-keyout", path("authority.key")]
                + ["-out", certificatePath] + Self.newKey
        )
    }

    /// A new certificate and its key, for a server with a name as `subjectAltName` has it. One of -1 days has expired.
    func issue(for name: String = "IP:127.0.0.1", days: Int = 2) async throws -> NIOSSLContext {
        let (key, request, names, certificate) = (path("receiver.key"), path("receiver.csr"), path("receiver.names"), path("receiver.pem"))
        try Data("subjectAltName=\(name)\n".utf8).write(to: URL(filePath: names))
        try await openssl(["req", "-subj", "/CN=receiver", "-keyout", key, "-out", request] + Self.newKey)
        try await openssl(
            ["x509", "-req", "-in", request, "-CA", certificatePath, "-CAkey", path("authority.key"), "-CAcreateserial"]
                + ["-extfile", names, "-days", "\(days)", "-out", certificate]
        )
        let chain = try NIOSSLCertificate.fromPEMBytes(Array(Data(contentsOf: URL(filePath: certificate))))
        let privateKey = try NIOSSLPrivateKey(bytes: Array(Data(contentsOf: URL(filePath: key))), format: .pem)
        return try NIOSSLContext(
            configuration: .makeServerConfiguration(certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(privateKey))
        )
    }

    private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

    private func path(_ name: String) -> String { folder.path(name) }

    private func openssl(_ arguments: [String]) async throws {
        let openssl = try ChildProcess.found(["openssl"] + arguments)
        let status = await openssl.exit()
        guard status == 0 else { throw HarnessError("openssl ended with \(status): \(openssl.output.joined(separator: "\n"))") }
    }
}
