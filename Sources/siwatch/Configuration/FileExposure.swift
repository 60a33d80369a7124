// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Who may read and change a file.
struct FileExposure {
    let path: String
    let status: stat

    /// Nil if the file cannot be reached.
    init?(_ path: String) {
        guard let status = stat(at: path) else { return nil }
        self.path = path
        self.status = status
    }

    /// Another user than root and ours, who owns the file. Root may run a command in the place of any user, so then the owner says nothing.
    /// Nor does that of a secret in memory, nor that of a file that Docker mounts read-only: it may be a user of another host.
    var foreignOwner: String? {
        guard geteuid() != 0, status.st_uid != 0, status.st_uid != geteuid() else { return nil }
        if let mount = Mount(of: path), mount.isSecret(path) || mount.isReadOnly && mount.isFor(path) { return nil }
        return Account.name(ofUser: status.st_uid)
    }

    /// Why a secret is none, if its mode alone does not say so.
    func reason(toKeepFrom backends: gid_t?) -> String? {
        if let foreignOwner {
            let takeover = "\(status.commands(for: path, mode: 0o600)) takes it over"
            return
                "belongs to \(foreignOwner), who can read and change it: if siwatch runs as that user, so should this command; else \(takeover)"
        }
        guard status.st_mode & 0o027 == 0, status.st_mode & 0o040 != 0, status.st_gid == backends else { return nil }
        // In a pod the platform may give one group to the database and to the secrets.
        if Mount(of: path)?.isSecret(path) == true { return nil }
        let group = Account.name(ofGroup: status.st_gid)
        // In a container, where the file is as it should be and the volume is not.
        let isVolumesFault = status.st_gid == Account.primaryGroup && Mount(of: path)?.isReadOnly == true
        let closing =
            isVolumesFault
            ? "the database's folder has that group too: give the folder a group of the backends, and the mode 2770" : status.closing(path)
        return "can be read by the group \(group), which is the backends' own; \(closing)"
    }

    /// Why others can change a file, and what that means.
    func reason(toBeChangedBy backends: gid_t?, meaning: String) -> String? {
        let others = status.st_mode & 0o002 != 0
        guard others || status.st_mode & 0o020 != 0 && status.st_gid == backends else { return nil }
        let who = others ? "everybody on this host" : "the group \(Account.name(ofGroup: status.st_gid)), which is the backends' own"
        return "can be changed by \(who), and \(meaning); sudo chmod go-w \(path.shellQuoted) closes it"
    }
}
