// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

extension AppleSimulator {
    /// Signs the answers to the next refreshes of all living tokens, so that a benchmark measures its subject and not RS256.
    ///
    /// The answers are good for ``SimulatorConfiguration/answerReuse``.
    ///
    /// - Returns: the number of signed answers.
    package func prepareAnswers() async throws -> Int {
        let drafts = world.withLockedValue { $0.draftAnswers(now: $0.now) }
        let answers = try await drafts.concurrentMap { (draft: $0, body: try $0.signed()) }
        world.withLockedValue { world in
            for answer in answers { world.keep(answer.body, of: answer.draft) }
        }
        return answers.count
    }
}
