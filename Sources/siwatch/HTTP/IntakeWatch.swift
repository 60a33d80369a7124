// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import NIOConcurrencyHelpers

/// Notices when what Apple posts would not arrive, however seldom Apple posts: siwatch asks itself over the URL that is registered there.
struct IntakeWatch: Sendable {
    let clock: WallClock
    let ask: @Sendable () async -> Finding
    private let failing = NIOLockedValueBox<(words: String, since: Timestamp, looks: Int)?>(nil)

    /// Why nothing arrives; nil unless two looks in a row have found it.
    var obstacle: String? {
        failing.withLockedValue(\.self).flatMap { $0.looks > 1 ? "\($0.words), since \($0.since.text)" : nil }
    }

    func look() async {
        let finding = await ask()
        let isGood = finding.severity == .note
        failing.withLockedValue { last in
            last = isGood ? nil : (words: finding.sentence, since: last?.since ?? clock.now, looks: (last?.looks ?? 0) + 1)
        }
    }

    var service: Recurring {
        Recurring(every: .minutes(5), onFailure: { _ in }) { await look() }
    }
}
