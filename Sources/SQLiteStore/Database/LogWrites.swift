// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What the kernel tells of writes to one file, by inotify.
final class LogWrites: Sendable {
    /// Readable after the next write.
    let descriptor: Int32
    private let path: String

    /// Nil where the kernel does not tell: another system than Linux, or no inotify instance is left to this user.
    init?(path: String) {
        #if os(Linux)
            self.path = path
            descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
            // `deinit` closes it: it runs here, too.
            guard descriptor >= 0, watch() else { return nil }
        #else
            return nil
        #endif
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Asks to be told of the next write, and of no other: telling costs whoever writes, and a large commit is thousands of writes.
    ///
    /// - Returns: whether the kernel will tell.
    func watch() -> Bool {
        inotify_add_watch(descriptor, path, UInt32(IN_MODIFY) | UInt32(IN_ONESHOT)) >= 0
    }

    /// Forgets what has been told so far.
    func drain() {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            while read(descriptor, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
