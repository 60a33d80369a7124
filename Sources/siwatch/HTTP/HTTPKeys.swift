// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import BoundedHTTP
import CredentialCore

/// The secrets of the door, read and found usable.
struct HTTPKeys {
    /// By the name of a client.
    var tokens: [String: [Secret]] = [:]
    /// PEM.
    var certificate: (chain: String, key: Secret)?

    func clients(of http: Configuration.HTTP) -> [Client] {
        http.clients.map { Client(name: $0.name, tokens: tokens[$0.name] ?? [], rights: Set($0.may)) }
    }

    /// In bytes.
    private static let longestCertificate = 1 << 18

    /// - Returns: nil if the configuration names none.
    static func certificate(of http: Configuration.HTTP) throws(CommandFailure) -> (chain: String, key: Secret)? {
        guard let chainFile = http.certificateFile, let keyFile = http.certificateKeyFile else { return nil }
        do {
            let chain = try TextFile.read(chainFile, limit: longestCertificate)
            let key = try TextFile.read(keyFile, limit: longestCertificate, isSecret: true)
            _ = try ServerCertificate(chain: chain, key: key)
            return (chain, Secret(key))
        } catch let error as TextFileError {
            throw .unusable(["http.certificate_file: \(chainFile.printable), or its key: \(error)"])
        } catch {
            throw .unusable(["http.certificate_file: \(chainFile.printable) and its key are no certificate in PEM with its own key"])
        }
    }
}
