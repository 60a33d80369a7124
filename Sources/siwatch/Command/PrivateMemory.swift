// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The memory of this process, which holds keys and tokens in clear.
enum PrivateMemory {
    /// From now on no crash writes a core file, and only root reads the memory. Other processes of the same user do not.
    static func begin() {
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
}
