// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What the names in the TOML file stand for.
struct FileNames {
    /// The folder of the TOML file.
    private let folder: String
    /// The folder of systemd's credentials, where the service has any.
    private let credentials: String?

    init(relativeTo source: String, credentials: String? = nil) {
        self.folder = source.lastIndex(of: "/").map { String(source[...$0]) } ?? ""
        self.credentials = credentials
    }

    /// A relative name begins at the folder of the TOML file.
    func path(of name: String) -> String {
        name.hasPrefix("/") ? name : folder + name
    }

    /// A bare name is that of a systemd credential, where there is one; else a path as any other.
    func keyPath(of name: String) -> String {
        if let credentials, !name.contains("/") {
            let credential = "\(credentials)/\(name)"
            if FileManager.default.fileExists(atPath: credential) { return credential }
        }
        return path(of: name)
    }
}
