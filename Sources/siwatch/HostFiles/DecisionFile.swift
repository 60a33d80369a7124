// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// A file beside the status socket, in a folder that only siwatch's user and root can write. It lasts until the host starts again.
struct DecisionFile: DecisionMemory {
    private let path: String
    private let folder: HostFile

    /// Nil if there is no such folder.
    init?(beside socket: String?) {
        guard let socket else { return nil }
        if geteuid() != 0 { mkdir(socket.folder, 0o700) }
        guard let folder = HostFile(socket.folder), folder.status.st_mode & 0o022 == 0, [folder.status.st_uid, 0].contains(geteuid())
        else { return nil }
        (path, self.folder) = ("\(socket).limits", folder)
    }

    func load() -> String? { try? String(contentsOfFile: path, encoding: .utf8) }

    /// On a full disk the old file stays, and a start that finds other counts than those lets nothing through.
    func save(_ text: String) {
        guard (try? Data(text.utf8).write(to: URL(filePath: path), options: .atomic)) != nil, geteuid() == 0 else { return }
        chown(path, folder.status.st_uid, folder.status.st_gid)
    }
}
