// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

extension String {
    /// Quoted as one word of a shell command.
    var shellQuoted: String {
        let isPlain = utf8.allSatisfy { $0.isLetterOrDigit || "/._-+@%:,".utf8.contains($0) }
        return isPlain && !isEmpty ? self : "'\(replacing("'", with: #"'\''"#))'"
    }

    /// The absolute path that somebody means who has dragged a file here, or has written it for a shell.
    var asPastedPath: String { pastedPath(homeBehindSudo: Account.homeBehindSudo) }

    /// - Parameter home: of the user who has typed `sudo`, which itself makes root's home of `~`. A file there comes first.
    func pastedPath(homeBehindSudo home: String?) -> String {
        let bare = ["'", "\""].contains { count > 1 && hasPrefix($0) && hasSuffix($0) } ? String(dropFirst().dropLast()) : self
        if let home, bare.hasPrefix("~/") {
            let path = home + bare.dropFirst()
            if FileManager.default.fileExists(atPath: path) { return path }
        }
        return URL(filePath: NSString(string: bare).expandingTildeInPath).standardizedFileURL.path
    }
}
