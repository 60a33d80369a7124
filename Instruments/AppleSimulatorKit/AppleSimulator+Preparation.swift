// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

extension AppleSimulator {
    /// Signs the answers that the next refreshes of all living tokens will get, so that a benchmark measures its subject and not RS256.
    ///
    /// They are good for as long as ``SimulatorConfiguration/answerReuse`` says.
    ///
    /// - Returns: how many were signed.
    package func prepareAnswers() async throws -> Int {
        let drafts = world.withLockedValue { $0.draftAnswers(now: $0.now) }
        let answers = try await drafts.concurrentMap { (draft: $0, body: try $0.signed()) }
        world.withLockedValue { world in
            for answer in answers { world.keep(answer.body, of: answer.draft) }
        }
        return answers.count
    }
}
