// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialSealing
import Foundation
import SQLiteStore

/// The keys that a configuration names, read and found usable.
struct Keys {
    /// The keys that sign client secrets, by app, the first one first.
    var clientSecretKeys: [String: [ClientSecretKey]] = [:]
    /// Absent where the file is; it is made then, if nothing is sealed yet.
    var ring: KeyRing?

    /// - Throws: every unusable file at once.
    init(_ configuration: Configuration) throws(CommandFailure) {
        var mistakes: [String] = []
        do {
            for (app, keys) in try configuration.readKeys() {
                for key in keys {
                    do {
                        clientSecretKeys[app, default: []].append(try ClientSecretKey(id: key.id, pem: key.pem))
                    } catch {
                        mistakes.append("app \(app.printable): \(error)")
                    }
                }
            }
        } catch {
            mistakes += error.mistakes.map { "\(error.source): \($0)" }
        }
        do {
            ring = try KeyRing(contentsOf: configuration.encryption.keyFile)
        } catch KeyFileError.missing {
            ring = nil
        } catch {
            mistakes.append("encryption.key_file: \(error)")
        }
        guard mistakes.isEmpty else { throw .unusable(mistakes) }
    }
}
