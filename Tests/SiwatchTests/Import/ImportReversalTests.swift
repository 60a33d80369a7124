// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Testing

@testable import CredentialCore
@testable import siwatch

struct ImportReversalTests {
    private func report(claimed: Int = 0, isRehearsal: Bool = false, days: Int = 0) -> ImportReversal.Report {
        let start = Timestamp(seconds: 1_700_000_000)
        let told = ToldImport(importID: "0123456789ab", signIns: 2, from: start, to: start.advanced(by: .hours(24 * days)))
        var report = ImportReversal.Report(told, isRehearsal: isRehearsal)
        report.claimed = claimed
        return report
    }

    /// A job may repeat the command then.
    @Test func anUndoThatIsNotDoneEndsWith69() {
        #expect(report(claimed: 1).failure?.code.rawValue == 69)
        #expect(report(claimed: 1).text.contains("waits for 1: siwatch is settling them"))
        #expect(report(claimed: 0).failure == nil)
        #expect(report(claimed: 1, isRehearsal: true).failure == nil)
    }

    @Test func severalImportsOfOneNameAreNamed() {
        let times = "told from 2023-11-14T22:13:20.000Z to 2023-11-16T22:13:20.000Z"
        #expect(report(days: 2).text.contains("\(times): these are several imports of one name, and all of them go"))
        #expect(!report(days: 1).text.contains("several imports"))
    }

    @Test func thePortionsAddUp() {
        var (report, undone) = (report(), UndoneImport())
        for (removed, taken, claimed) in [(0, 500, 3), (40, 0, 0)] {
            (undone.removed, undone.taken, undone.claimed, undone.stayed) = (removed, taken, claimed, 2)
            report.add(undone)
        }
        #expect(report.removed == 40 && report.taken == 500 && report.claimed == 0 && report.stayed == 2)
    }
}
