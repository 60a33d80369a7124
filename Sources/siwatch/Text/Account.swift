// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// As the system's header has it.
private typealias GroupLine = group

/// Names of the process's user and group, as the system knows them.
enum Account {
    static var user: String { name(ofUser: geteuid()) }
    static var group: String { name(ofGroup: getegid()) }

    /// The group of the process's user in the system's list, which secrets belong to. The unit gives the process the backends' group instead.
    static var primaryGroup: gid_t { User(geteuid())?.groupID ?? getegid() }

    /// The user that siwatch runs as, and the group that shares the database with backends, as the package makes them. On a host without
    /// them, this process's own.
    static var service: String { geteuid() == 0 && User("siwatch") != nil ? "siwatch" : user }
    static var backendGroup: String { Group.ofBackends != nil ? "siwatch-backend" : group }

    /// The home of the user who started this process by `sudo`; nil without sudo.
    static var homeBehindSudo: String? {
        Invocation.current.environment["SUDO_USER"].flatMap { User($0)?.home }
    }

    static func name(ofUser user: uid_t) -> String { User(user)?.name ?? "\(user)" }

    static func name(ofGroup group: gid_t) -> String { Group(group)?.name ?? "\(group)" }

    /// A line of the system's list of users. Looking it up is safe on every thread.
    struct User {
        let name: String
        let id: uid_t
        let groupID: gid_t
        let home: String

        init?(_ name: String) { self.init { getpwnam_r(name, $0, $1, $2, $3) } }
        init?(_ id: uid_t) { self.init { getpwuid_r(id, $0, $1, $2, $3) } }

        private init?(_ lookUp: LookUp<passwd>) {
            let line = Account.find(passwd(), lookUp) {
                (String(cString: $0.pw_name), $0.pw_uid, $0.pw_gid, String(cString: $0.pw_dir))
            }
            guard let line else { return nil }
            (name, id, groupID, home) = line
        }
    }

    /// A line of the system's list of groups.
    struct Group {
        let name: String
        let id: gid_t
        /// Those that the line names, besides the users by primary group.
        let members: [String]

        /// The one that shares the database with backends, as the package makes it.
        static var ofBackends: Group? { Group("siwatch-backend") }

        init?(_ name: String) { self.init { getgrnam_r(name, $0, $1, $2, $3) } }
        init?(_ id: gid_t) { self.init { getgrgid_r(id, $0, $1, $2, $3) } }

        private init?(_ lookUp: LookUp<GroupLine>) {
            let line = Account.find(GroupLine(), lookUp) { line in
                var (members, next) = ([String](), line.gr_mem)
                while let member = next?.pointee {
                    members.append(String(cString: member))
                    next = next?.advanced(by: 1)
                }
                return (String(cString: line.gr_name), line.gr_gid, members)
            }
            guard let line else { return nil }
            (name, id, members) = line
        }
    }

    private typealias LookUp<Entry> = (
        UnsafeMutablePointer<Entry>, UnsafeMutablePointer<CChar>, Int, UnsafeMutablePointer<UnsafeMutablePointer<Entry>?>
    ) -> Int32

    /// Reads a line of a list, whose texts stand in a buffer that lives as long as `read`. A group may have thousands of members.
    private static func find<Entry, Found>(_ empty: Entry, _ lookUp: LookUp<Entry>, read: (Entry) -> Found) -> Found? {
        var (entry, size) = (empty, 1 << 12)
        while true {
            var result: UnsafeMutablePointer<Entry>?
            let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: size)
            defer { buffer.deallocate() }
            guard lookUp(&entry, buffer, size, &result) == ERANGE, size < 1 << 24 else { return result == nil ? nil : read(entry) }
            size *= 4
        }
    }
}

extension stat {
    /// Nil if nothing can be reached there; then `errno` says why.
    init?(at path: String) {
        self.init()
        guard stat(path, &self) == 0 else { return nil }
    }

    /// Of the link itself, if one stands there.
    init?(notFollowing path: String) {
        self.init()
        guard lstat(path, &self) == 0 else { return nil }
    }

    var isRegularFile: Bool { st_mode & S_IFMT == S_IFREG }

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
