// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

struct Mount: Equatable {
    /// The folder or the file that it covers.
    var point: String
    var isReadOnly: Bool
    /// The type of its file system, such as `tmpfs`.
    var type: String

    /// Nil if the file cannot be reached, or the kernel does not tell.
    init?(of path: String) {
        guard let mounts = try? String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8), let path = Self.realPath(path) else {
            return nil
        }
        self.init(of: path, in: mounts)
    }

    /// - Parameters:
    ///   - path: without symbolic links.
    ///   - mounts: the text of `/proc/self/mountinfo`.
    init?(of path: String, in mounts: String) {
        var found: Mount?
        for line in mounts.split(separator: "\n") {
            guard let mount = Mount(line: line), mount.covers(path) else { continue }
            // Of two mounts on one point, the later hides the earlier.
            if let found, found.point.utf8.count > mount.point.utf8.count { continue }
            found = mount
        }
        guard let found else { return nil }
        self = found
    }

    /// proc(5): the fifth word of a line is the point, the sixth has the options, and the type comes after a hyphen.
    private init?(line: Substring) {
        let words = line.split(separator: " ").map(String.init)
        guard words.count > 5, let hyphen = words.firstIndex(of: "-"), hyphen + 1 < words.count else { return nil }
        let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        point = escapes.reduce(words[4]) { $0.replacing($1.0, with: $1.1) }
        isReadOnly = words[5].split(separator: ",").contains("ro")
        type = words[hyphen + 1]
    }

    private func covers(_ path: String) -> Bool { point == "/" || path == point || path.hasPrefix(point + "/") }

    /// Whether it was made for this file: on the file, or on a folder that is not everybody's.
    func isFor(_ path: String) -> Bool {
        if Self.realPath(path) == point { return true }
        return !Self.shared.contains(point) && Self.realPath(path.folder) == point
    }

    /// Whether it was made in memory for this file. systemd, Kubernetes and Swarm mount secrets so, with owners and groups of their own choice.
    func isSecret(_ path: String) -> Bool { ["tmpfs", "ramfs"].contains(type) && isFor(path) }

    /// Mounts of the system that hold files of many programs. A unit may see them read-only.
    private static let shared: Set = ["/", "/dev", "/dev/shm", "/run", "/run/lock", "/tmp", "/var/tmp"]

    private static func realPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

extension stat {
    /// What takes a secret away from others who can read or change it, as the end of a sentence.
    func closing(_ path: String) -> String {
        guard let mount = Mount(of: path), mount.isReadOnly, mount.isFor(path) else {
            return "\(commands(for: path, mode: 0o600)) closes it"
        }
        return "it is mounted read-only: give it the group \(Account.primaryGroup) and the mode 0440 where it comes from"
    }
}
