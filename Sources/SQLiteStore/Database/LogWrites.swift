// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The kernel's reports of writes to one file, by inotify.
final class LogWrites: Sendable {
    /// Readable after the next write.
    let descriptor: Int32
    private let path: String

    /// Nil if the kernel does not report: the system is not Linux, or this user has no inotify instance left.
    init?(path: String) {
        #if os(Linux)
            self.path = path
            descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
            // `deinit` closes the descriptor. It runs here, too.
            guard descriptor >= 0, watch() else { return nil }
        #else
            return nil
        #endif
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Watches for one write, then stops. Each notification costs the writing process time, and a large commit makes thousands of writes.
    ///
    /// - Returns: whether the kernel will report.
    func watch() -> Bool {
        inotify_add_watch(descriptor, path, UInt32(IN_MODIFY) | UInt32(IN_ONESHOT)) >= 0
    }

    func drain() {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            while read(descriptor, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
