// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Outlives a process.
package final class KeptDecisions: DecisionMemory {
    private let text = NIOLockedValueBox<String?>(nil)

    package init() {}

    package func load() -> String? { text.withLockedValue { $0 } }
    package func save(_ text: String) { self.text.withLockedValue { $0 = text } }
    package func clear() { text.withLockedValue { $0 = nil } }
}
