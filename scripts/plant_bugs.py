#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Plants one bug after another in the sources, and sees that the simulation finds each, or a test of several siwatch.

A check that cannot fail proves nothing. The bugs are planted in the working tree and taken back; nothing else may build there
meanwhile. Bugs at the edge of the store are planted by the tests themselves: Tests/CredentialTesting/Simulation/Run/PlantedBug.swift.

`make plant-bugs` says how swift builds here.

    scripts/plant_bugs.py [WORD]            those with this word in their name; all without one
    scripts/plant_bugs.py --tests [WORD]    those that the simulation does not meet, as one process cannot have most: a suite finds each
    scripts/plant_bugs.py --check           only sees that each has its place in the sources
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

# Over PostgreSQL they take longer.
SEEDS = {"sqlite": 2000, "postgres": 400}
ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "Sources"

# What goes wrong, in which file, and what stands there in place of what.
BUGS = [
    (
        "a request to revoke overlooks a token that is told after it",
        "SettlementFold+Grants.swift",
        "        if let newToken { revoke(newToken, of: credential, in: app, issuedTo: answer == nil ? nil : teamID) }\n",
        "        _ = newToken\n",
    ),
    (
        "an older event overwrites a newer one",
        "AppUser.swift",
        "consentRevokedAt = latest(consentRevokedAt, event.occurredAt)",
        "consentRevokedAt = event.occurredAt",
    ),
    (
        "an event kills a newer sign-in",
        "Credential.swift",
        "grantedAt = latest(grantedAt, grant.grantedAt)",
        "grantedAt = grantedAt ?? grant.grantedAt",
    ),
    (
        "a token is sealed anew over another one",
        "SealedTable.swift",
        "WHERE \\(isSame) AND t.\\(column) = @old_bytes RETURNING 1",
        "WHERE \\(isSame) RETURNING 1",
    ),
    (
        "a revoked token is kept",
        "Credential.swift",
        "token?.sealed != nil, !isTokenUsable(under: user)",
        "token?.sealed != nil, false",
    ),
    (
        "a duplicate leaves no trace",
        "SQLiteStore/Settling/SQLiteConnection+Settling.swift",
        "if db.changesCount > 0 { continue }",
        "if db.changesCount >= 0 { continue }",
    ),
    (
        "a settled notification stays in its queue",
        "SQLiteStore/Settling/SQLiteConnection+Settling.swift",
        "        for ids in notifications.map(\\.work.id).ranges { try remove.run(bound(ids.lowerBound, ids.upperBound)) }\n",
        "",
    ),
    (
        "an event does not wait for the sign-in that is newer",
        "SettlementFold+Notifications.swift",
        "guard notification.event.endsSignIns else { return false }",
        "guard notification.event.endsSignIns, false else { return false }",
    ),
    (
        "a change is told twice",
        "SettlementFold.swift",
        "for change in new.changes(since: old, at: time) {",
        "for change in new.changes(since: old, at: time) + new.changes(since: old, at: time) {",
    ),
    (
        "a second end is not told",
        "CredentialChange.swift",
        "let isSameEnd = standing.state == .authorized || old?.standing.since == standing.since",
        "let isSameEnd = true",
    ),
    (
        "a settlement needs no claim",
        "SettlementFold+Refreshes.swift",
        "return record.claimedBy == work.claim.owner && record.attempts == work.claim.attempts ? record : nil",
        "return record",
    ),
    (
        "the due time is not moved after an answer",
        "CredentialRecord.swift",
        "        dueAt = next\n",
        "",
    ),
    (
        "a rejection is believed although the user has signed in again",
        "SettlementFold+Refreshes.swift",
        "$0.clientID == work.id.clientID && $0.grantedAt > work.token.grantedAt",
        "_ in false",
    ),
    (
        "a repeated rejection is believed although Apple accepted nobody in between",
        "AdmissionRule.swift",
        "return provedAt > requestedAt.advanced(by: policy.timeout) && provedAt <= rejection.requestedAt.advanced(by: policy.timeout)",
        "return provedAt == provedAt",
    ),
    (
        "the end of an old token ends a newer sign-in",
        "CredentialState.swift",
        ", wasTokenGood(at: grantedAt)",
        "",
    ),
    (
        "the end of a token that was never accepted proves a revocation",
        "SettlementFold+Revocations.swift",
        "            return end(work, proof)\n",
        "            return revoke(work, proof, .alreadyInvalid)\n",
    ),
    (
        "an accepted token is thrown away when another is told",
        "Credential.swift",
        "        keep(token, verifiedAt: isAccepted ? verifiedAt : nil, team: verifiedTeam)\n",
        "",
    ),
    (
        "the token before one that is none is not taken again",
        "CredentialRecord.swift",
        "        credential.fallBack()\n        if credential.token?.key != token {",
        "        if credential.token?.key != token {",
    ),
    (
        "the next hour lifts the revocation limit",
        "RevocationLimit.swift",
        "if reachedAt == nil, opened >= rules",
        "reachedAt = nil; if opened >= rules",
    ),
    (
        "a confirmed request to revoke is held again",
        "SettlementFold+Revocations.swift",
        "if work.confirmedAt == nil, let settled",
        "if let settled",
    ),
    (
        "the end of an old token proves that of a newer one",
        "SettlementFold+Revocations.swift",
        "guard let credential, credential.token?.key == work.token else",
        "guard let credential else",
    ),
    (
        "a client that Apple refuses hides who has left another",
        "RejectionBreaker.swift",
        "isProbed || !blamedClients.isEmpty && !clearedClients.contains(clientID)",
        "isOpen",
    ),
    (
        "a token that Apple has not named is taken for its user's",
        "RefreshVerdict.swift",
        "return credential.verifiedAt == nil\n",
        "return false\n",
    ),
    (
        "a token that is told again is a new sign-in",
        "SettlementFold+Grants.swift",
        "known?.isRetold(grant) ?? false {",
        "known?.isRetold(grant) ?? false, false {",
    ),
    (
        "an event waits six minutes for a sign-in, come to its turn or not",
        "SettlementFold+Grants.swift",
        "        if grants.contains(where: \\.isOnItsWay) { return true }\n",
        "",
    ),
    (
        "a process that stood still counts the time for which an event waits",
        "GrantIntake.swift",
        "state.last <= now && now <= state.last.advanced(by: longestBreak) ? state.since : now",
        "true ? state.since : now",
    ),
    (
        "a proved revocation is one of its own client alone",
        "SettlementFold+Revocations.swift",
        "            if outcome == .proved { user.registers.revoke(at: wantedAt) }\n",
        "",
    ),
    (
        "a proved revocation spares a token at another client",
        "Credential.swift",
        "            && isGreater(granted, than: user.revokedAt)\n",
        "",
    ),
    (
        "a believed rejection stays pending",
        "CredentialRecord.swift",
        "        waitForRepetition(under: policy)\n        pending = nil\n",
        "        waitForRepetition(under: policy)\n",
    ),
    (
        "a token that Apple never accepted ends its user",
        "CredentialState.swift",
        "if let verifiedAt, isTokenRejected, wasTokenGood(at: grantedAt) {",
        "if let verifiedAt = latest(verifiedAt, rejectedAt), isTokenRejected, wasTokenGood(at: grantedAt) {",
    ),
    (
        "the end of a token is dated by its rejection",
        "CredentialState.swift",
        "since: max(verifiedAt, grantedAt.advanced(by: .milliseconds(1)))",
        "since: latest(verifiedAt, rejectedAt)",
    ),
    (
        "a new token is first asked about a day later",
        "RefreshPolicy.swift",
        "let spread = isImport(grantedAt: grantedAt, now: now) ? interval : longestFirstWait",
        "let spread = interval",
    ),
    (
        "a claim that was lost settles what another claim of the batch holds",
        "SettlementFold+Grants.swift",
        "guard basis.heldGrants[work.id] == work.claim else",
        "guard basis.heldGrants[work.id] != nil else",
    ),
    (
        "a code that nobody sent, because Apple refuses the client, has come too late",
        "SettlementFold+Codes.swift",
        "if work.detail == nil, let refusal",
        "if work.detail == \"\", let refusal",
    ),
    (
        "a 200 does not end what is known of a client that Apple refused",
        "ClientRecord.swift",
        "if known.at <= time || known.at > now {",
        "if known.at == time, known.at > now {",
    ),
    (
        "an answer is dated by our clock, whatever Apple's says",
        "TokenEndpoint.swift",
        "? ours : earliest",
        "? ours : ours",
    ),
    (
        "a sign-in that is dated ahead is taken at once",
        "SettlementRules.swift",
        "longestLead = Duration.seconds(3)",
        "longestLead = Duration.seconds(300)",
    ),
    (
        "a step of the clock is taken for the right time",
        "ClockTrust.swift",
        "            hasSteppedSinceApple = true\n",
        "",
    ),
    (
        "a sign-in from the future is thrown away",
        "SettlementFold+Grants.swift",
        "if since!.duration(to: lookedAt) > SettlementRules.longestGrantWait {",
        "if since!.duration(to: lookedAt) > SettlementRules.longestGrantWait || due != nil {",
    ),
    (
        "a clock that is off is trusted to forget by",
        "ClockTrust.swift",
        "return right.isFurther(than: Self.largestSkew, from: wall) ? .skewed : nil",
        "return nil",
    ),
    (
        "the address of a deleted account is kept",
        "AppUser.swift",
        "guard isGreater(new.at, than: deletedAt), isGreater(new.at, than: revokedAt) else { return }",
        "",
    ),
    (
        "a request to revoke that cannot be read is overlooked",
        "IssueJudge.swift",
        "return try await store.firstRequestToRevoke(credential, since: time)",
        "return try? await store.firstRequestToRevoke(credential, since: time)",
    ),
    (
        "what is counted by app is not taken back",
        "UserRecord.swift",
        "neverAccepted += after.neverAccepted - before.neverAccepted",
        "neverAccepted += after.neverAccepted",
    ),
    (
        "what Apple says to another team is believed",
        "SettlementFold+Refreshes.swift",
        "        if finding == .rejected, wasAccepted, !known.credential.wasTokenAccepted(by: work.teamID) { return .forgotten }\n",
        "",
    ),
    (
        "answers to two teams prove a revocation together",
        "SettlementFold+Revocations.swift",
        """            let isAnotherTeam = work.wasAccepted(byAnotherTeamThan: identity.teamID)
            var work = work
""",
        """            let isAnotherTeam = false
            var work = work
""",
    ),
    (
        "another user's token shuts out the accepted one before it",
        "CredentialRecord.swift",
        "        credential.putBackForeignToken()\n",
        "",
    ),
    (
        "a token that another team asks about is taken for dead",
        "RevocationHandler.swift",
        "work.wasAccepted(byAnotherTeamThan: identity.teamID) ? .otherTeam : .admitted",
        "identity.teamID == nil ? .otherTeam : .admitted",
    ),
    (
        "the team that Apple accepted a token from is the first one for ever",
        "Credential.swift",
        "            verifiedTeam = answer.teamID\n",
        "            verifiedTeam = verifiedTeam ?? answer.teamID\n",
    ),
    (
        "tokens that Apple has never accepted open the breaker",
        "SettlementFold+Refreshes.swift",
        "isCheck: work.purpose == .check && !isRepeated && wasAccepted",
        "isCheck: work.purpose == .check && !isRepeated",
    ),
    (
        "a code proves what Apple says of refreshes",
        "Pace.swift",
        "isProof: Bool = false,",
        "isProof: Bool = true,",
    ),
    (
        "the retention erases rejected tokens at once",
        "TableStore+Retention.swift",
        "try await eraseRejectedTokens(olderThan: now.advanced(by: .zero - retention.rejectedToken))",
        "try await eraseRejectedTokens(olderThan: now)",
    ),
    (
        "a notification whose key is unknown waits for ever",
        "NotificationHandler.swift",
        "case .keyNotYetKnown(let retryAt), .notYetIssued(let retryAt): return .postponed(until: retryAt)",
        "case .keyNotYetKnown(let retryAt), .notYetIssued(let retryAt): return .postponed(until: retryAt.advanced(by: .seconds(90 * 86_400)))",
    ),
    (
        "an undo takes a user of whom a backend has told too",
        "UserRecord.swift",
        "        if let record = self[clientID], record.importedBy != importID { self[clientID]?.importedBy = nil }\n",
        "",
    ),
    (
        "an undo takes a user of whom Apple has told too",
        "UserRecord.swift",
        "        keep()\n        registers.apply(event)\n",
        "        registers.apply(event)\n",
    ),
    (
        "an undo does not wait for a row that siwatch is settling",
        "ImportErasure.swift",
        "(g.claimed_by IS NULL OR g.due_at <= \\(now))",
        "(g.claimed_by IS NULL OR g.due_at <= \\(now) OR g.due_at > 0)",
    ),
    (
        "an undo does not tell an end again that the import had hidden",
        "ImportErasure.swift",
        "        for user in going { try tellHiddenEnds(of: user, id) }\n",
        "",
    ),
    (
        "an undo leaves its credentials in the counts by state",
        "UserRows.swift",
        "SET count = count - \\(gone.count)\n",
        "SET count = count - 0 * \\(gone.count)\n",
    ),
    (
        "an import that runs goes on after its undo",
        "TableStore+ImportDesk.swift",
        "                    throw KeyForgotten()\n",
        "",
    ),
    (
        "on PostgreSQL a duplicate leaves no trace",
        "PostgresStore/Settling/Connection+Settling.swift",
        "'duplicate' FROM repeated ORDER BY settlement",
        "'duplicate' FROM repeated WHERE FALSE ORDER BY settlement",
    ),
    (
        "on PostgreSQL a claim that was lost settles its row",
        "CredentialTables/Settling/SettlementTransaction+Load.swift",
        "if holders[claim.id] == claim.claim {",
        "if holders[claim.id] != nil {",
    ),
    (
        "an event overlooks a sign-in that is being taken",
        "CredentialTables/Claims/TableStore+SignIns.swift",
        " OR \\(sql: grant).claimed_by IS NOT NULL\n",
        "\n",
    ),
    (
        "on PostgreSQL what waits for its repetition is asked about each minute",
        "CredentialTables/Claims/Schedule.swift",
        "(pending_since IS NOT NULL AND answered_at + \\(policy.repetition) >",
        "(FALSE AND answered_at + \\(policy.repetition) >",
    ),
    (
        "a decision without a proof is carried out",
        "DecisionBook.swift",
        "let isProved = prover.isProved(decision, by: proof) && !state.spent.contains(proof)",
        "let isProved = prover.isProved(decision, by: proof) || true",
    ),
    (
        "the revocation limit goes by the row, although the process knows another count",
        "DecisionBook.swift",
        "                if known == Standing(decision: stored, proof: proof) { return .stored }\n",
        "                if prover.isProved(stored, by: proof) { return .stored }\n",
    ),
    (
        "a replica seals under a key that another lacks",
        "CredentialCore/Ports/Fleet.swift",
        "first { key in others.allSatisfy { $0.contains(key) } } ?? self[0]",
        "self[0]",
    ),
    (
        "a token that somebody put among those to revoke is revoked",
        "ClaimedRows.swift",
        "isPlanted = !decisions.isProved(opening,",
        "isPlanted = false && !decisions.isProved(opening,",
    ),
    (
        "a planted count of users raises the revocation limit",
        "DecisionBook.swift",
        "return (min(right, count), right)",
        "return (count, right)",
    ),
]

# The same of several siwatch on one server, and the test that has to find it.
TESTED_BUGS = [
    (
        "a request is sent without asking the lease",
        "LaneLease.swift",
        "state.withLockedValue { $0.holds(at: uptime()) }",
        "true",
        "ChaosTests",
    ),
    (
        "the end of a lease is ignored",
        "LaneLease.swift",
        "begin <= uptime && uptime < end",
        "epoch != nil && begin <= uptime || epoch == nil && uptime < end",
        "LaneLeaseTests",
    ),
    (
        "a claim never looks below its floor",
        "ClaimFloor.swift",
        "lookedEverywhereAt.map { $0.advanced(by: Self.interval) <= now } ?? true",
        "lookedEverywhereAt == nil",
        "ClaimFloorTests",
    ),
    (
        "a settlement needs no claim",
        "CredentialTables/Settling/SettlementTransaction+Load.swift",
        "if holders[claim.id] == claim.claim {",
        "if holders[claim.id] == claim.claim || true {",
        "LostCommitTests",
    ),
    (
        "a COMMIT whose answer was lost counts as done",
        "ConnectionThread.swift",
        "case false?: throw StoreError.retry(reason)",
        "case false?: return try value!()",
        "LostCommitTests",
    ),
    (
        # The simulation's few users have no second due check in the seconds after a probe.
        "permits that another lane gives back begin the wait for the next probe anew",
        "RequestBudget.swift",
        "if count > 0, isProbing { state.probedAt = nil }",
        "if count > 0 { state.probedAt = nil }",
        "RequestBudgetTests",
    ),
    (
        "a start forgets how many requests to revoke it has opened",
        "DecisionBook.swift",
        "let known = state.remembered.proofs(",
        "let known = RememberedDecisions().proofs(",
        "PlantedRevocationTests",
    ),
    (
        "a request of an operator is carried out twice",
        "DecisionBook.swift",
        "by: proof) && !state.spent.contains(proof)",
        "by: proof)",
        "PlantedDecisionTests",
    ),
    (
        "a confirmed request names every later sign-in",
        "SettlementFold+Revocations.swift",
        "return work.confirmedAt.map { min(time, $0.advanced(by: SettlementRules.longestLead)) } ?? time",
        "return time",
        "PlantedRevocationTests",
    ),
]


# As the Makefile gives them to all calls of swift, but in a folder of its own, because a planted bug may leave a warning.
FLAGS = os.environ.get("SWIFT_FLAGS", "").replace("-Xswiftc -warnings-as-errors", "").split() + ["--scratch-path", ".build-bugs"]


def build(*what):
    """Nothing of it where the sources do not build."""
    build = subprocess.run(["swift", "build", *FLAGS, *what], cwd=ROOT, capture_output=True, text=True)
    if build.returncode != 0:
        errors = [line for line in build.stdout.splitlines() if "error:" in line]
        sys.exit("it does not build:\n" + "\n".join(errors[:5] or [build.stderr]))


def run(*command):
    """What it says, and whether it found something. Long suites run, as in CI."""
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"CI": "true"})
    return run.returncode != 0, run.stdout + run.stderr


def simulate(store):
    """What the simulation says over a store, and whether it found something."""
    build("--product", "siwatch-simulate")
    folder = run("swift", "build", *FLAGS, "--show-bin-path")[1].strip()
    return run(f"{folder}/siwatch-simulate", "--users", "40", "--seeds", str(SEEDS[store]), "--store", store)


def test(suite):
    """What a suite says, and whether it found something."""
    build("--build-tests")
    return run("swift", "test", *FLAGS, "--skip-build", "--filter", suite)


def place(name, path, before):
    """The file of a bug; nothing where it does not have exactly one place."""
    files = list(SOURCES.rglob(path))
    if len(files) == 1 and files[0].read_text().count(before) == 1:
        return files[0]
    print(f"? {name}: its place in {path} has changed")


def plant(name, path, before, after, suite=None):
    file = place(name, path, before)
    if file is None:
        return False
    text = file.read_text()
    store = "postgres" if "PostgresStore" in file.parts or name.startswith("on PostgreSQL") else "sqlite"
    try:
        file.write_text(text.replace(before, after))
        found, output = test(suite) if suite else simulate(store)
    finally:
        file.write_text(text)
    if suite:
        reason = re.search(r"recorded an issue.*? at \S+: (.*(?:\n[^✘✔◇↳].*)?)", output)
        print(f"{'✓' if found else '✗'} {name}: {suite}, {reason[1][:300] if reason else output.strip()[-200:]}", flush=True)
        return found
    seed = re.search(r"SEED=(\d+)", output)
    tried = re.search(r"^(\d+) seeds", output, re.MULTILINE)
    sentence = next((line for line in output.splitlines() if re.match(r"I\d+ ", line)), output.strip()[-200:])
    if found:
        print(f"✓ {name}: seed {seed[1] if seed else '?'} ({tried[1] if tried else '?'} tried), {sentence[:140]}", flush=True)
    else:
        print(f"✗ {name}: {SEEDS[store]} seeds did not find it", flush=True)
    return found


def main():
    # A bug is taken back on a signal too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        sys.exit(0 if all([place(*bug[:3]) for bug in BUGS + TESTED_BUGS]) else 1)
    is_tested = arguments[:1] == ["--tests"]
    bugs, find = (TESTED_BUGS, test) if is_tested else (BUGS, simulate)
    word = "".join(arguments[is_tested:])
    chosen = [bug for bug in bugs if word in bug[0]]
    for where in sorted({bug[4] for bug in chosen}) if is_tested else SEEDS:
        found, output = find(where)
        if found:
            sys.exit("without any bug it fails already:\n" + output)
    missed = [bug[0] for bug in chosen if not plant(*bug)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} bugs were found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
