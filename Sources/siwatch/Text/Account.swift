// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Names of the process's user and group, as the system knows them.
enum Account {
    static var user: String { name(ofUser: geteuid()) }
    static var group: String { name(ofGroup: getegid()) }

    /// The group of the process's user in the system's list, which secrets belong to. The unit gives the process the backends' group instead.
    static var primaryGroup: gid_t { getpwuid(geteuid())?.pointee.pw_gid ?? getegid() }

    /// The user that siwatch runs as, and the group that shares the database with backends, as the package makes them. On a host without
    /// them, this process's own.
    static var service: String { geteuid() == 0 && getpwnam("siwatch") != nil ? "siwatch" : user }
    static var backendGroup: String { getgrnam("siwatch-backend") != nil ? "siwatch-backend" : group }

    /// The home of the user who started this process by `sudo`; nil without sudo.
    static var homeBehindSudo: String? {
        guard let user = ProcessInfo.processInfo.environment["SUDO_USER"], let entry = getpwnam(user)?.pointee else { return nil }
        return String(cString: entry.pw_dir)
    }

    /// The users that the system's list names as members of a group, besides its users by primary group.
    static func members(ofGroup group: gid_t) -> [String] {
        guard var next = getgrgid(group)?.pointee.gr_mem else { return [] }
        var members: [String] = []
        while let member = next.pointee {
            members.append(String(cString: member))
            next += 1
        }
        return members
    }

    static func name(ofUser user: uid_t) -> String {
        getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)"
    }

    static func name(ofGroup group: gid_t) -> String {
        getgrgid(group).map { String(cString: $0.pointee.gr_name) } ?? "\(group)"
    }
}

extension stat {
    var modeText: String { "0" + String(st_mode & 0o7777, radix: 8) }

    /// The shell commands that give a file to this process's user and set its mode. If somebody puts a link at the path in between, neither
    /// follows it: `chmod` would, but has no right to another owner's file. Root, in the place of the owner, takes nothing over.
    ///
    /// - Parameter group: nil is the user's primary group, to which secrets belong.
    func commands(for path: String, mode: mode_t, group: String? = nil) -> String {
        let owner = "\(Account.user):\(group ?? Account.name(ofGroup: Account.primaryGroup))"
        let isOurs = [st_uid, 0].contains(geteuid())
        let chown = isOurs ? [] : ["sudo chown -h \(owner) \(path.shellQuoted)"]
        // A change of owner clears the set-group-ID bit.
        let change = "sudo -u \(isOurs ? Account.name(ofUser: st_uid) : Account.user) chmod \(String(mode, radix: 8)) \(path.shellQuoted)"
        let chmod = isOurs && st_mode & 0o7777 == mode ? [] : [change]
        return (chown + chmod).joined(separator: " && ")
    }
}
