// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Which credentials an undo removes.
struct ImportUndoTests {
    private static let time = Timestamp(milliseconds: 1_750_000_000_000)

    private func record(_ grantedAt: Timestamp? = Self.time, token tokenAt: Timestamp? = Self.time) -> CredentialRecord {
        var record = CredentialRecord()
        record.credential.grantedAt = grantedAt
        record.credential.token = tokenAt.map { RefreshToken(key: RefreshToken.Key(grantedAt: $0, fingerprint: [1]), sealed: nil) }
        return record
    }

    private func evidence(_ change: (inout ImportedCredential) -> Void = { _ in }) -> ImportedCredential {
        var evidence = ImportedCredential()
        evidence.times = [Self.time]
        change(&evidence)
        return evidence
    }

    @Test func whatOnlyTheImportHasToldGoes() {
        #expect(evidence().verdict(on: record(), under: AppUser()) == .remove)
        #expect(evidence().verdict(on: record(token: nil), under: AppUser()) == .remove)
        #expect(evidence().verdict(on: nil, under: AppUser()) == .remove)
    }

    @Test func everyOtherRowKeeps() {
        #expect(evidence { $0.wasKnown = true }.verdict(on: record(), under: AppUser()) == .keep(.knownBefore))
        #expect(evidence { $0.hasOtherSignIn = true }.verdict(on: record(), under: AppUser()) == .keep(.otherSignIn))
        #expect(evidence { $0.hasRevocation = true }.verdict(on: record(), under: AppUser()) == .keep(.revocation))
        #expect(evidence { $0.hasNotification = true }.verdict(on: record(), under: AppUser()) == .keep(.notification))
        #expect(evidence { $0.hasOtherSignIn = true }.verdict(on: nil, under: AppUser()) == .nothing)
    }

    @Test func aClaimedRowWaitsWhateverElseIsKnown() {
        #expect(evidence { ($0.isClaimed, $0.wasKnown) = (true, true) }.verdict(on: record(), under: AppUser()) == .wait)
        #expect(evidence { $0.isClaimed = true }.verdict(on: nil, under: AppUser()) == .wait)
    }

    @Test func everyRegisterThatTheImportDidNotMoveKeeps() {
        func verdict(_ change: (inout AppUser) -> Void) -> ImportVerdict {
            var registers = AppUser()
            change(&registers)
            return evidence().verdict(on: record(), under: registers)
        }
        let address = EmailAddress("a@example.com")
        #expect(verdict { $0.consentRevokedAt = Self.time } == .keep(.notification))
        #expect(verdict { $0.deletedAt = Self.time } == .keep(.notification))
        #expect(verdict { $0.revokedAt = Self.time } == .keep(.revocation))
        #expect(verdict { $0.apply(Event(.emailDisabled(nil), at: Self.time)) } == .keep(.notification))
        #expect(verdict { $0.mailbox = Mailbox(at: Self.time, rank: .event, address: address) } == .keep(.notification))
        #expect(verdict { $0.mailbox = Mailbox(at: Self.time, rank: .idToken, address: address) } == .remove)
    }

    @Test func aSignInOrTokenOfAnotherTimeKeeps() {
        let other = Self.time.advanced(by: .milliseconds(1))
        #expect(evidence().verdict(on: record(other), under: AppUser()) == .keep(.unexplained))
        #expect(evidence().verdict(on: record(nil), under: AppUser()) == .keep(.unexplained))
        #expect(evidence().verdict(on: record(token: other), under: AppUser()) == .keep(.unexplained))
        var former = record()
        former.credential.formerToken = RefreshToken(key: RefreshToken.Key(grantedAt: other, fingerprint: [2]), sealed: nil)
        #expect(evidence().verdict(on: former, under: AppUser()) == .keep(.unexplained))
        #expect(evidence { $0.times.insert(other) }.verdict(on: former, under: AppUser()) == .remove)
        var revoked = record()
        revoked.credential.revokedAt = other
        #expect(evidence().verdict(on: revoked, under: AppUser()) == .keep(.revocation))
    }

    @Test func aLedgerHoldsItsRowsInRuns() {
        let ledger = ImportLedger(rows: [7, 3, 4, 5, 9], known: [9, 3])
        #expect(ledger.rows == [3, 4, 5, 7, 9] && ledger.known == [3, 9])
        #expect(ledger.contains(4) && !ledger.contains(6) && !ImportLedger().contains(0))
    }

    @Test func ledgersAnswerAsOne() {
        let (one, two) = (ImportLedger(rows: [20, 21, 30], known: [30]), ImportLedger(rows: [3, 4, 25], known: []))
        let ledgers = ImportLedgers([one, two, ImportLedger()])
        let all = Set<Int64>([3, 4, 20, 21, 25, 30])
        for row in Int64(0)...40 { #expect(ledgers.contains(row) == all.contains(row), "\(row)") }
        #expect(ledgers.isKnown(30) && !ledgers.isKnown(20) && !ImportLedgers([]).contains(1))
    }

    // MARK: From batch to batch

    private func undo(_ batch: Int64, searchedUpTo id: Int64 = 100, erasedBefore erased: Int64 = 0) -> ImportUndo {
        var undo = ImportUndo(importID: "one", batch: batch, isRehearsal: false)
        undo.searchedUpTo = ["grant_log": id]
        undo.erasedBefore = erased
        return undo
    }

    private func result(_ change: (inout ImportUndo.Result) -> Void = { _ in }) -> ImportUndo.Result {
        var result = ImportUndo.Result()
        change(&result)
        return result
    }

    /// SQLite gives the ids above the rows that are left to new rows.
    @Test func theNextBatchKnowsWhatThisUndoHasErased() {
        var progress = UndoProgress()
        progress.add([undo(1), undo(2), undo(3)])
        #expect(progress.next == undo(1) && progress.count == 3)
        let first = progress.take(result { ($0.removed, $0.newestGrant, $0.erased) = (4, 60, 4) })
        #expect(first && progress.next == undo(2, searchedUpTo: 60, erasedBefore: 4))
        let second = progress.take(result { ($0.taken, $0.erased) = (5, 4) })
        #expect(second && progress.next == undo(3, searchedUpTo: 60, erasedBefore: 4))
        #expect(progress.removed == 4 && progress.taken == 5)
    }

    @Test func aBatchWithAClaimedRowComesOnceMoreAndCountsOnce() {
        var progress = UndoProgress()
        progress.add([undo(1), undo(2)])
        var isTaken = progress.take(result { ($0.claimed, $0.kept, $0.removed) = (2, ["revocation": 1], 1) })
        #expect(isTaken && progress.claimed == 2)
        isTaken = progress.take(result { $0.kept = ["revocation": 3] })
        #expect(isTaken && progress.next == nil && progress.kept == ["revocation": 4])
        progress.beginAgain()
        #expect(progress.next == undo(1) && progress.count == 1)
        isTaken = progress.take(result { ($0.removed, $0.kept) = (2, ["revocation": 1]) })
        #expect(isTaken && progress.claimed == 0 && progress.removed == 3 && progress.kept == ["revocation": 4])
        progress.beginAgain()
        #expect(progress.next == nil)
    }

    @Test func anUndoOfSomebodyElseEndsThisOne() {
        var progress = UndoProgress()
        progress.add([undo(1)])
        let isTaken = progress.take(result { ($0.isOutdated, $0.erased) = (true, 7) })
        #expect(!isTaken && progress.next == undo(1) && progress.removed == 0)
        // A later search would know of the other undo, and this one does not.
        progress.add([undo(2, erasedBefore: 7)])
        #expect(progress.next?.erasedBefore == 0)
    }

    @Test func onlyBatchesWithRowsAreSearchedAndOnlyOnce() {
        func told(_ batch: Int64, _ rows: [Int64]) -> ToldImport {
            ToldImport(importID: "one", batch: batch, ledger: ImportLedger(rows: rows, known: []), toldAt: nil)
        }
        var progress = UndoProgress()
        let batches = [told(2, [1, 2]), told(3, []), told(4, [4])]
        #expect(progress.unsearched(batches).map(\.batch) == [2, 4])
        progress.add([undo(2)])
        #expect(progress.unsearched(batches).map(\.batch) == [4])
    }
}
