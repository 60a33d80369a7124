// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A file or a folder of this host, as one look has found it.
struct HostFile {
    let path: String
    let status: stat

    /// Nil if it cannot be reached; then `errno` says why.
    init?(_ path: String) {
        guard let status = stat(at: path) else { return nil }
        (self.path, self.status) = (path, status)
    }

    var owner: String { Account.name(ofUser: status.st_uid) }
    var group: String { Account.name(ofGroup: status.st_gid) }

    func allows(_ rights: mode_t) -> Bool { status.st_mode & rights == rights }

    /// A command of the owner's, who cannot be made to change another user's file.
    func chmod(_ change: String) -> String { "sudo -u \(owner) chmod \(change) \(path.shellQuoted)" }
}

extension String {
    var folder: String { URL(filePath: self).deletingLastPathComponent().path }
}

// MARK: The configuration, and the keys that it names

extension HostFile {
    /// Another user than root and ours, who owns the file. Root may run a command in the place of any user, so then the owner says nothing.
    /// Nor does that of a secret in memory, nor that of a file that Docker mounts read-only: it may be a user of another host.
    var foreignOwner: String? {
        guard geteuid() != 0, status.st_uid != 0, status.st_uid != geteuid() else { return nil }
        if let mount = Mount(of: path), mount.isSecret(path) || mount.isReadOnly && mount.isFor(path) { return nil }
        return owner
    }

    /// Why a secret is none, if its mode alone does not say so.
    func reason(toKeepFrom backends: gid_t?) -> String? {
        if let foreignOwner {
            let takeover = "\(status.commands(for: path, mode: 0o600)) takes it over"
            return
                "belongs to \(foreignOwner), who can read and change it: if siwatch runs as that user, so should this command; else \(takeover)"
        }
        guard status.st_mode & 0o027 == 0, allows(0o040), status.st_gid == backends else { return nil }
        let mount = Mount(of: path)
        // In a pod the platform may give one group to the database and to the secrets.
        if mount?.isSecret(path) == true { return nil }
        // In a container, where the file is as it should be and the volume is not.
        let isVolumesFault = status.st_gid == Account.primaryGroup && mount?.isReadOnly == true
        let closing =
            isVolumesFault
            ? "the database's folder has that group too: give the folder a group of the backends, and the mode 2770" : status.closing(path)
        return "can be read by the group \(group), which is the backends' own; \(closing)"
    }

    /// Why others can change a file, and what that means.
    func reason(toBeChangedBy backends: gid_t?, meaning: String) -> String? {
        guard allows(0o002) || allows(0o020) && status.st_gid == backends else { return nil }
        let who = allows(0o002) ? "everybody on this host" : "the group \(group), which is the backends' own"
        return "can be changed by \(who), and \(meaning); sudo chmod go-w \(path.shellQuoted) closes it"
    }
}
