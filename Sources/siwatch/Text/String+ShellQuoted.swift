// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension String {
    /// Quoted as one word of a shell command.
    var shellQuoted: String {
        let isPlain = utf8.allSatisfy { $0.isLetterOrDigit || "/._-+@%:,".utf8.contains($0) }
        return isPlain && !isEmpty ? self : "'\(replacing("'", with: #"'\''"#))'"
    }
}
