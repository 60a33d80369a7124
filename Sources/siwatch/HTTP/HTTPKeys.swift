// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import BoundedHTTP
import CredentialCore
import Foundation

/// The secrets of the door, read and found usable.
struct HTTPKeys {
    /// By the name of a client.
    var tokens: [String: [Secret]] = [:]
    /// PEM.
    var certificate: (chain: String, key: Secret)?

    private static let longestToken = 1024
    private static let shortestToken = 32
    private static let longestCertificate = 1 << 18

    /// - Throws: every unusable file at once. No message quotes what a file holds.
    init(_ http: Configuration.HTTP) throws(CommandFailure) {
        var mistakes: [String] = []
        for (index, client) in http.clients.enumerated() {
            for (position, path) in client.tokenFiles.enumerated() {
                let place = "http.client[\(index)].token_files[\(position)]"
                do {
                    tokens[client.name, default: []].append(try Self.token(path))
                } catch {
                    mistakes.append("\(place): \(path.printable) \(error)")
                }
            }
        }
        let all = tokens.values.flatMap(\.self)
        if Set(all).count < all.count { mistakes.append("http.client: two token files hold the same token") }
        if let chainFile = http.certificateFile, let keyFile = http.certificateKeyFile {
            do {
                let chain = try TextFile.read(chainFile, limit: Self.longestCertificate)
                let key = try TextFile.read(keyFile, limit: Self.longestCertificate, isSecret: true)
                certificate = (chain, Secret(key))
                _ = try ServerCertificate(chain: chain, key: key)
            } catch let error as TextFileError {
                mistakes.append("http.certificate_file: \(chainFile.printable), or its key: \(error)")
            } catch {
                mistakes.append("http.certificate_file: \(chainFile.printable) and its key are no certificate in PEM with its own key")
            }
        }
        guard mistakes.isEmpty else { throw .unusable(mistakes) }
    }

    private struct Unusable: Error, CustomStringConvertible {
        var description: String
    }

    private static func token(_ path: String) throws -> Secret {
        guard FileManager.default.fileExists(atPath: path) else {
            throw Unusable(description: "is not there, or in a folder that this user may not see; siwatch secret new token makes one")
        }
        let text = try TextFile.read(path, limit: longestToken, isSecret: true).trimmingCharacters(in: .whitespaces)
        guard text.utf8.count >= shortestToken, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw Unusable(description: "is no token of at least \(shortestToken) characters; siwatch secret new token makes one")
        }
        guard !text.hasPrefix("whsec_") else { throw Unusable(description: "is the secret of a [[delivery]], and no token") }
        return Secret(text)
    }

    func clients(of http: Configuration.HTTP) -> [Client] {
        http.clients.map { Client(name: $0.name, tokens: tokens[$0.name] ?? [], rights: Set($0.may)) }
    }
}
