// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Foundation

extension ClientKey {
    /// Reads the `.p8` file, or makes a key and the file with mode 0600 if there is none.
    ///
    /// - Throws: an error of Foundation about the file, or of swift-crypto about its text.
    static func load(id: String, orCreate path: String) throws -> ClientKey {
        let url = URL(fileURLWithPath: path)
        if FileManager.default.fileExists(atPath: path) {
            return try ClientKey(id: id, pem: String(contentsOf: url, encoding: .utf8))
        }
        let key = ClientKey.generate(id: id)
        // Set the mask, so that no other user can read the file even for a moment. The process makes no other file here.
        umask(0o077)
        try Data("\(key.pem)\n".utf8).write(to: url, options: .withoutOverwriting)
        return key
    }
}
