// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A file that the configuration names, with the key that names it.
struct NamedFile {
    enum Role {
        case sealingKey, password, clientSecretKey, token, certificateKey, webhookSecret
        /// A certificate, which is no secret.
        case authority

        fileprivate var maker: String? {
            switch self {
            case .token: "siwatch secret new token makes one"
            case .webhookSecret: "siwatch secret new webhook makes one"
            case .sealingKey, .password, .clientSecretKey, .certificateKey, .authority: nil
            }
        }
    }

    var role: Role
    var place: String
    var path: String
    /// The app, the client or the delivery that it belongs to.
    var owner = ""
    var id = ""

    func read(limit: Int) throws(TextFileError) -> String {
        try TextFile.read(path, limit: limit, isSecret: role != .authority, mayBeDER: role == .clientSecretKey)
    }

    func mistake(_ problem: String) -> ConfigurationMistake { .at(place, "\(path) \(problem)") }

    fileprivate func mistake(_ error: any Error) -> ConfigurationMistake {
        switch error {
        case TextFileError.missing, TextFileError.useless: mistake("\(error)" + (role.maker.map { "; \($0)" } ?? ""))
        case is TextFileError: mistake("\(error)")
        default: .at(place, "\(path): \(error)")
        }
    }
}

extension Configuration {
    /// All but certificates, which anybody may read.
    var files: [NamedFile] {
        var files = [NamedFile(role: .sealingKey, place: "encryption.key_file", path: encryption.keyFile)]
        func add(_ role: NamedFile.Role, _ place: String, _ path: String?, of owner: String = "", id: String = "") {
            if let path { files.append(NamedFile(role: role, place: place, path: path, owner: owner, id: id)) }
        }
        for (index, app) in apps.enumerated() {
            for (position, key) in app.keys.enumerated() {
                add(.clientSecretKey, "app[\(index)].key[\(position)].file", key.file, of: app.name, id: key.id)
            }
        }
        add(.password, "database.password_file", database.passwordFile)
        for (index, client) in http.clients.enumerated() {
            for (position, path) in client.tokenFiles.enumerated() {
                add(.token, "http.client[\(index)].token_files[\(position)]", path, of: client.name)
            }
        }
        add(.certificateKey, "http.certificate_key_file", http.certificateKeyFile)
        for (index, delivery) in deliveries.enumerated() {
            for (position, path) in delivery.secretFiles.enumerated() {
                add(.webhookSecret, "delivery[\(index)].secret_files[\(position)]", path, of: delivery.name)
            }
            add(.authority, "delivery[\(index)].ca_file", delivery.caFile, of: delivery.name)
        }
        return files
    }

    /// What the files of a role hold, by their owners. Throws all mistakes at once. None quotes what a file holds.
    func read<Content>(
        _ role: NamedFile.Role,
        limit: Int,
        as parse: (_ text: String, NamedFile) throws -> Content
    ) throws(InvalidConfiguration) -> [String: [Content]] {
        var contents: [String: [Content]] = [:]
        var mistakes: [ConfigurationMistake] = []
        for file in files where file.role == role {
            do {
                contents[file.owner, default: []].append(try parse(try file.read(limit: limit), file))
            } catch {
                mistakes.append(file.mistake(error))
            }
        }
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: source, mistakes: mistakes) }
        return contents
    }

    // MARK: Who else can read or change them

    /// Keys that another user or the backends can read, and a configuration or an authority that others can change: they say which servers
    /// get the tokens and the webhooks. A key that everybody can read is found when siwatch reads it.
    var exposedFiles: [ConfigurationMistake] {
        let own = HostFile(source)?.reason(toBeChangedBy: backends, meaning: "it names the servers that get the tokens")
        let ofFiles = files.compactMap { named in
            let file = HostFile(named.path)
            let reason =
                named.role == .authority
                ? file?.reason(toBeChangedBy: backends, meaning: "it says which server gets the webhooks")
                : file?.reason(toKeepFrom: backends)
            return reason.map { named.mistake($0) }
        }
        return (own.map { [ConfigurationMistake(place: .file, problem: $0)] } ?? []) + ofFiles
    }

    /// Members of the group of the configuration and the keys, besides siwatch. Backends belong into the group of the database.
    /// Empty if the group has another name than the package gives it.
    var strangersInGroup: [String] {
        guard let id = HostFile(source)?.status.st_gid, let group = Account.Group(id), group.name == "siwatch" else { return [] }
        return group.members.filter { !["siwatch", "root"].contains($0) }
    }

    /// The group of the backends: that of the database, or of its folder while there is none. Nil on a server, where backends need no
    /// account of this host.
    private var backends: gid_t? {
        database.url == nil ? (HostFile(database.path) ?? HostFile(database.path.folder))?.status.st_gid : nil
    }
}

/// Turns file names in the TOML file into paths.
struct FileNames {
    private let folder: String
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

    func path(of name: String) -> String { name.hasPrefix("/") ? name : folder + name }

    /// A name without a slash means a systemd credential, if that exists. Otherwise it is a path like any other.
    func keyPath(of name: String) -> String {
        if let credentials, !name.contains("/") {
            let credential = "\(credentials)/\(name)"
            if FileManager.default.fileExists(atPath: credential) { return credential }
        }
        return path(of: name)
    }
}
