// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
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

    /// Lets the kernel forget ended processes that have lost their parent, as those of a health check that was cut off. They become children
    /// of the first process. Nil in any other process.
    static var orphans: Recurring? {
        guard getpid() == 1 else { return nil }
        // It may take a process from the one who waits for it, who goes by what the process says.
        return Recurring(every: .seconds(10), onFailure: { _ in }) {
            while waitpid(-1, nil, WNOHANG) > 0 {}
        }
    }
}
