// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A key that signs client secrets, as read from its file.
struct AppKey: Sendable, Equatable {
    var id: String
    var pem: Secret
}

extension Configuration {
    /// Reads the keys of every app, in the order of the file.
    ///
    /// It is a step of its own, so that a mistake in the TOML file is found where the keys are not at hand.
    ///
    /// - Returns: By the name of the app.
    /// - Throws: All mistakes at once; none quotes what a file holds.
    func readKeys() throws(InvalidConfiguration) -> [String: [AppKey]] {
        var keys: [String: [AppKey]] = [:]
        var mistakes: [ConfigurationMistake] = []
        for (index, app) in apps.enumerated() {
            for (position, key) in app.keys.enumerated() {
                do {
                    keys[app.name, default: []].append(AppKey(id: key.id, pem: try key.readPEM()))
                } catch {
                    mistakes.append(.at("app[\(index)].key[\(position)].file", "\(key.file) \(error)"))
                }
            }
        }
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: source, mistakes: mistakes) }
        return keys
    }
}

extension Configuration.App.Key {
    /// In bytes; Apple's are 257 long.
    private static let longestFile = 16_384

    fileprivate func readPEM() throws(KeyProblem) -> Secret {
        let text: String
        do {
            text = try TextFile.read(file, limit: Self.longestFile, isSecret: true)
        } catch {
            throw .file(error)
        }
        guard text.isPrivateKey else { throw .notAKey }
        return Secret(text)
    }
}

private enum KeyProblem: Error, CustomStringConvertible {
    case file(TextFileError)
    case notAKey

    var description: String {
        switch self {
        case .file(let error): error.description
        case .notAKey: "is not a private key as Apple hands it out (PEM, PKCS#8: -----BEGIN PRIVATE KEY-----)"
        }
    }
}

extension String {
    /// Whether it is one PEM block of a private key, by its looks; what is inside is judged where it is used.
    fileprivate var isPrivateKey: Bool {
        let lines = split(whereSeparator: \.isWhitespace).joined(separator: " ")
        guard
            let body = lines.wholeMatch(of: /-----BEGIN PRIVATE KEY----- ([A-Za-z0-9+\/= ]+) -----END PRIVATE KEY-----/)
        else { return false }
        return body.1.count > 100
    }
}
