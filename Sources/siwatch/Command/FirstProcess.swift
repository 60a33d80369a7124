// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The first process of a container.
enum FirstProcess {
    /// Lets SIGTERM and SIGINT end this process, as they end any other. The kernel withholds from the first process of a container each signal
    /// for which it has no handler. The daemon later replaces these by its own.
    static func begin() {
        guard getpid() == 1 else { return }
        for number in [SIGTERM, SIGINT] {
            signal(number) { _exit(128 + $0) }
        }
    }
}
