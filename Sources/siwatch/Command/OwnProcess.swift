// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialMonitor
import Foundation

/// What this process asks of the system.
enum OwnProcess {
    /// Before anything else. From then on no crash writes a core file with keys and tokens in clear, and only root reads the memory. Other
    /// processes of the same user do not.
    static func begin() {
        // The kernel withholds from the first process of a container each signal for which it has no handler. The daemon later replaces these.
        if getpid() == 1 { for number in [SIGTERM, SIGINT] { signal(number) { _exit(128 + $0) } } }
        // Children inherit the limit. A handler of core files in `kernel.core_pattern` may ignore it.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        #if os(Linux)
            // The kernel hands no process without PR_SET_DUMPABLE, which is 4, to such a handler. Swift imports no function like prctl(2),
            // whose number of arguments varies.
            typealias ProcessControl = @convention(c) (CInt, CUnsignedLong, CUnsignedLong, CUnsignedLong, CUnsignedLong) -> CInt
            if let prctl = dlsym(nil, "prctl") { _ = unsafeBitCast(prctl, to: ProcessControl.self)(4, 0, 0, 0, 0) }
        #endif
    }

    /// Makes the process another user's, for good, with that user's groups and none of root's rights. False if it cannot.
    static func become(_ user: Account.User) -> Bool {
        guard initgroups(user.name, .init(user.groupID)) == 0, setgid(user.groupID) == 0, setuid(user.id) == 0 else { return false }
        // The kernel forgets with the user that others must not read the memory.
        begin()
        return geteuid() == user.id && setuid(0) != 0
    }

    /// Lets the kernel forget ended processes that have lost their parent, as those of a health check that was cut off. They become children
    /// of the first process of a container. Nil in any other process.
    static var orphans: Recurring? {
        guard getpid() == 1 else { return nil }
        // It may take a process from the one who waits for it, who goes by what the process says.
        return Recurring(every: .seconds(10), onFailure: { _ in }) {
            while waitpid(-1, nil, WNOHANG) > 0 {}
        }
    }

    /// Work moves between threads, and glibc would keep freed memory in an arena for each: a fifth of the memory.
    static func shareArenas() {
        #if os(Linux)
            // Swift does not see <malloc.h>. M_ARENA_MAX is -8.
            typealias MallocOption = @convention(c) (CInt, CInt) -> CInt
            if let mallopt = dlsym(nil, "mallopt") { _ = unsafeBitCast(mallopt, to: MallocOption.self)(-8, 2) }
        #endif
    }

    // MARK: Open files

    private static var openFiles: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_NOFILE.rawValue) }

    /// Raises the limit of open files and connections to what the unit asks for, as far as the host allows. Shells and containers begin with
    /// 1,024, and libdispatch ends a process that has none left.
    static func raiseFileLimit() {
        var limits = rlimit()
        guard getrlimit(openFiles, &limits) == 0, limits.rlim_cur < 65_536 else { return }
        limits.rlim_cur = min(65_536, limits.rlim_max)
        setrlimit(openFiles, &limits)
    }

    /// The connections that the HTTP door may have, 4,096 at most, after a reserve for Apple, the receivers of webhooks, the other servers,
    /// the database and files. The door may hold twice as many for a moment.
    static func doorConnections(of configuration: Configuration) -> Int {
        var limits = rlimit()
        let limit = getrlimit(openFiles, &limits) == 0 ? Int(clamping: limits.rlim_cur) : .max
        let apple = 3 * configuration.refresh.maxConcurrentRequests * configuration.apps.count
        let left = limit - apple - 64 * configuration.deliveries.count - 4 * ConnectionLimits().count - 128
        return min(4096, max(left, limit / 4) / 2)
    }
}
