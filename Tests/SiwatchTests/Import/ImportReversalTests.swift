// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Testing

@testable import siwatch

struct ImportReversalTests {
    private func report(claimed: Int, isRehearsal: Bool = false) -> ImportReversal.Report {
        var report = ImportReversal.Report(id: "0123456789ab", isRehearsal: isRehearsal)
        report.claimed = claimed
        return report
    }

    /// A job may repeat the command then.
    @Test func anUndoThatIsNotDoneEndsWith69() {
        #expect(report(claimed: 1).failure?.code.rawValue == 69)
        #expect(report(claimed: 1).text.contains("waits for 1: siwatch is settling their sign-ins"))
        #expect(report(claimed: 0).failure == nil)
        #expect(report(claimed: 1, isRehearsal: true).failure == nil)
    }
}
