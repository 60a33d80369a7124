// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import Foundation

/// How many files and connections this process may have open. libdispatch ends a process that has none left.
enum OpenFileLimit {
    private static var resource: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_NOFILE.rawValue) }

    /// Raises the limit to what the unit asks for, as far as the host allows. Shells and containers begin with 1,024.
    static func raise() {
        var limits = rlimit()
        guard getrlimit(resource, &limits) == 0, limits.rlim_cur < 65_536 else { return }
        limits.rlim_cur = min(65_536, limits.rlim_max)
        setrlimit(resource, &limits)
    }

    /// The connections that the HTTP door may have, 4,096 at most, after a reserve for Apple, the receivers of webhooks, the other servers,
    /// the database and files. The door may hold twice as many for a moment.
    static func connections(of configuration: Configuration) -> Int {
        var limits = rlimit()
        let limit = getrlimit(resource, &limits) == 0 ? Int(clamping: limits.rlim_cur) : .max
        let apple = 3 * configuration.refresh.maxConcurrentRequests * configuration.apps.count
        let left = limit - apple - 64 * configuration.deliveries.count - 4 * ConnectionLimits().count - 128
        return min(4096, max(left, limit / 4) / 2)
    }
}
