// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Names of the process's user and group, as the system knows them.
enum Account {
    static var user: String { name(ofUser: geteuid()) }
    static var group: String { name(ofGroup: getegid()) }

    /// The user that siwatch runs as, and the group that shares the database with backends, as the package makes them. On a host without
    /// them, this process's own.
    static var service: String { geteuid() == 0 && getpwnam("siwatch") != nil ? "siwatch" : user }
    static var backendGroup: String { getgrnam("siwatch-backend") != nil ? "siwatch-backend" : group }

    static func name(ofUser user: uid_t) -> String {
        getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)"
    }

    static func name(ofGroup group: gid_t) -> String {
        getgrgid(group).map { String(cString: $0.pointee.gr_name) } ?? "\(group)"
    }
}

extension stat {
    var modeText: String { "0" + String(st_mode & 0o7777, radix: 8) }

    /// The shell commands that give a file to this process and set its mode. If somebody puts a link at the path in between, neither follows
    /// it: `chmod` would, but has no right to another owner's file. Root, in the place of the owner, takes nothing over.
    func commands(for path: String, mode: mode_t, group: gid_t? = nil) -> String {
        let owner = "\(Account.user):\(Account.name(ofGroup: group ?? getegid()))"
        let isOurs = [st_uid, 0].contains(geteuid())
        let chown = isOurs ? [] : ["sudo chown -h \(owner) \(path.shellQuoted)"]
        // A change of owner clears the set-group-ID bit.
        let change = "sudo -u \(isOurs ? Account.name(ofUser: st_uid) : Account.user) chmod \(String(mode, radix: 8)) \(path.shellQuoted)"
        let chmod = isOurs && st_mode & 0o7777 == mode ? [] : [change]
        return (chown + chmod).joined(separator: " && ")
    }
}
