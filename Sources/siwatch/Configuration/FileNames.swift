// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Turns file names in the TOML file into paths.
struct FileNames {
    /// The folder of the TOML file.
    private let folder: String
    /// The folder of systemd's credentials, if the service has credentials.
    private let credentials: String?

    init(relativeTo source: String, credentials: String? = nil) {
        self.folder = source.lastIndex(of: "/").map { String(source[...$0]) } ?? ""
        self.credentials = credentials
    }

    /// The folder of systemd's credentials: the service's own, or that of the running unit, for a command beside it.
    static var systemCredentials: String? {
        if let folder = Invocation.current.environment["CREDENTIALS_DIRECTORY"] { return folder }
        let unit = "/run/credentials/siwatch.service"
        return FileManager.default.isReadableFile(atPath: unit) ? unit : nil
    }

    /// Whether systemd hides the credentials of the unit from this command, as version 252 does from `ExecReload=`.
    static var areCredentialsHidden: Bool {
        Invocation.current.environment["CREDENTIALS_DIRECTORY"].map { access($0, X_OK) != 0 } ?? false
    }

    /// A relative name starts at the folder of the TOML file.
    func path(of name: String) -> String {
        name.hasPrefix("/") ? name : folder + name
    }

    /// A name without a slash means a systemd credential, if that exists. Otherwise it is a path like any other.
    func keyPath(of name: String) -> String {
        if let credentials, !name.contains("/") {
            let credential = "\(credentials)/\(name)"
            if FileManager.default.fileExists(atPath: credential) { return credential }
        }
        return path(of: name)
    }
}
