// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

extension sockaddr_un {
    /// - Parameter address: a path, or an abstract name that begins with `@`.
    /// - Returns: nil if the address is neither, or is too long.
    init?(socketAddress address: String) {
        guard address.hasPrefix("/") || address.hasPrefix("@") else { return nil }
        self.init()
        sun_family = sa_family_t(AF_UNIX)
        let fits = withUnsafeMutableBytes(of: &sun_path) { path in
            guard address.utf8.count < path.count else { return false }
            path.copyBytes(from: address.utf8)
            if path[0] == UInt8(ascii: "@") { path[0] = 0 }
            return true
        }
        guard fits else { return nil }
    }
}

enum UnixSocket {
    /// Removes the socket that a siwatch has left behind. Returns why nobody can listen at the path.
    static func obstacle(at path: String) -> String? {
        guard let status = stat(notFollowing: path) else { return errno == ENOENT ? missingFolder(of: path) : systemError() }
        guard status.st_mode & S_IFMT == S_IFSOCK else { return "is no socket" }
        guard !isListenedOn(path) else { return "another siwatch listens there" }
        return unlink(path) == 0 ? nil : systemError()
    }

    static func missingFolder(of path: String) -> String? {
        access(path.folder, F_OK) != 0 && errno == ENOENT ? "the folder \(path.folder.printable) is not there" : nil
    }

    /// Why somebody else might answer there in siwatch's place; nil if nobody can, or if there is no such folder.
    static func danger(at path: String) -> String? {
        guard let folder = HostFile(path.folder) else { return nil }
        if folder.status.st_mode & 0o022 != 0 { return "other users may write its folder \(folder.path)" }
        guard let socket = stat(notFollowing: path), socket.st_uid != folder.status.st_uid else { return nil }
        return "it belongs to \(Account.name(ofUser: socket.st_uid)), and its folder to \(folder.owner)"
    }

    static func isListenedOn(_ path: String) -> Bool {
        guard var target = sockaddr_un(socketAddress: path) else { return false }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let result = withUnsafePointer(to: &target) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        // A full queue of connections is a listener too.
        return result == 0 || errno == EAGAIN
    }
}
