// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Says which decisions in the tables count.
///
/// A decision counts if it has siwatch's proof. A proof alone does not tell an old row from the present one. So the process that alone
/// writes a file also remembers what its last committed transaction wrote, and which requests it has carried out. The counts of revocation
/// limits, and pauses, outlive it in a `DecisionMemory`, because a program that can write the file can end the process too. On a server, roles keep
/// others from writing, and replicas write too: there the proof decides.
package final class DecisionBook: Sendable {
    private let isOnlyWriter: Bool
    private let state = NIOLockedValueBox(State())

    private struct State {
        /// Nil in a process that only reads or appends.
        var prover: (any DecisionProver)?
        var since = Timestamp.earliest
        /// Names the process.
        let process = Int64.random(in: .min ... .max)
        var standing: [DecisionRow: Standing] = [:]
        var memory: (any DecisionMemory)?
        var remembered = RememberedDecisions()
        /// As siwatch has registered them. Whoever can write the file can give an app another name.
        var apps: [Int64: String] = [:]
        /// By app, the authorized credentials: several numbers after a commit whose outcome nobody knows.
        var authorized: [Int64: Set<Int>] = [:]
        /// Proofs of requests that were carried out.
        var spent: Set<[UInt8]> = []
        /// What the transaction that is under way writes.
        var written = Written()
        var planted: [DecisionRow.Kind: PlantedDecisions] = [:]

        mutating func count(_ changes: [Int64: Int], isCommitted: Bool) {
            for (app, change) in changes {
                guard let counts = authorized[app] else { continue }
                authorized[app] = Set(counts.map { $0 + change }).union(isCommitted ? [] : counts)
            }
        }

        mutating func plant(_ row: DecisionRow) {
            planted[row.kind, default: PlantedDecisions(row.kind)].count += 1
            guard let ids = planted[row.kind]?.ids, ids.count < PlantedDecisions.mostIDs, !ids.contains(row.id) else { return }
            planted[row.kind]?.ids.append(row.id)
        }
    }

    /// As it stands in its row. Without the proof, the next process would not believe it.
    private struct Standing: Equatable {
        var decision: Decision
        var proof: [UInt8]
    }

    private struct Written {
        var standing: [DecisionRow: Standing] = [:]
        var authorized: [Int64: Int] = [:]
        var spent: Set<[UInt8]> = []
    }

    package init(isOnlyWriter: Bool) { self.isOnlyWriter = isOnlyWriter }

    /// - Parameter memory: what a former process knew; nil if nothing outlives a process.
    func trust(_ prover: any DecisionProver, since now: Timestamp, _ memory: (any DecisionMemory)? = nil) {
        let memory = isOnlyWriter ? memory : nil
        let remembered = memory?.load().flatMap { JSONText.decode($0) } ?? RememberedDecisions()
        state.withLockedValue { $0 = State(prover: prover, since: now, memory: memory, remembered: remembered, apps: $0.apps) }
    }

    func register(_ apps: [Int64: String]) { state.withLockedValue { $0.apps = apps } }

    func takePlanted() -> [PlantedDecisions] {
        state.withLockedValue { state in
            defer { state.planted = [:] }
            return DecisionRow.Kind.allCases.compactMap { state.planted[$0] }
        }
    }

    // MARK: Transactions of the only writer

    package enum Ending: Sendable { case committed, rolledBack, unknown }

    package func begin() { state.withLockedValue { $0.written = Written() } }

    /// Before the commit: if the process ends meanwhile, a row may hold the old decision or the new one.
    package func prepare() { remember { $0.union([$1]) } }

    private func remember(_ change: (Set<[UInt8]>, [UInt8]) -> Set<[UInt8]>) {
        let kept = state.withLockedValue { state -> (memory: any DecisionMemory, contents: RememberedDecisions)? in
            let written = state.written.standing.filter { [.limit, .pause].contains($0.key.kind) }
            guard !written.isEmpty, let prover = state.prover else { return nil }
            for (row, standing) in written {
                let proof = prover.prove(standing.decision)
                state.remembered.change(row, of: state.apps[row.id], by: prover) { change($0, proof) }
            }
            return state.memory.map { ($0, state.remembered) }
        }
        if let kept, let text = try? JSONText.encode(kept.contents) { kept.memory.save(text) }
    }

    package func end(_ ending: Ending) {
        if ending == .committed { remember { [$1] } }
        state.withLockedValue { state in
            let written = state.written
            state.written = Written()
            switch ending {
            case .committed:
                state.standing.merge(written.standing) { $1 }
                state.spent.formUnion(written.spent)
                state.count(written.authorized, isCommitted: true)
            case .rolledBack: break
            // The rows hold either. Their proofs tell.
            case .unknown:
                for row in written.standing.keys { state.standing[row] = nil }
                state.count(written.authorized, isCommitted: false)
            }
        }
    }

    /// Forgets what `body` has noted if it fails, as its savepoint does.
    func inSavepoint<Value>(_ body: () throws -> Value) rethrows -> Value {
        let written = state.withLockedValue(\.written)
        do {
            return try body()
        } catch {
            state.withLockedValue { $0.written = written }
            throw error
        }
    }

    // MARK: A decision that is carried out once

    /// Nil in a process that carries out no decision.
    func proof(of decision: Decision) -> [UInt8]? { state.withLockedValue(\.prover)?.prove(decision) }

    /// Whether siwatch wrote the decision. Notes any other as planted.
    func isProved(_ decision: Decision, by proof: [UInt8], in row: DecisionRow) -> Bool {
        state.withLockedValue { state in
            guard let prover = state.prover else { return false }
            let isProved = prover.isProved(decision, by: proof) && !state.spent.contains(proof)
            if !isProved { state.plant(row) }
            return isProved
        }
    }

    /// Lets a proof count no more.
    func spend(_ proof: [UInt8]) {
        guard isOnlyWriter else { return }
        state.withLockedValue { _ = $0.written.spent.insert(proof) }
    }

    /// Whether a request is older than the process, which does not know then whether it was carried out before.
    func isTooOld(_ requestedAt: Timestamp, at now: Timestamp) -> Bool {
        guard isOnlyWriter else { return false }
        return state.withLockedValue { state in
            // After a clock that was set back, the process began by the new time.
            state.since = min(state.since, now)
            return requestedAt < state.since
        }
    }

    var process: Int64 { state.withLockedValue(\.process) }

    /// Whether this process goes on with what a process has begun. On a file it does not know how far a former one had come. Replicas of a
    /// server do.
    func goesOn(with process: Int64) -> Bool { !isOnlyWriter || process == self.process }

    // MARK: A decision that stands

    enum Belief {
        case stored
        /// Somebody else wrote the row. What siwatch wrote last counts; nil if this process does not know it.
        case instead(Decision?)
    }

    /// Only in a transaction, because a reader may be behind or ahead of what the process knows.
    /// - Parameter isInitial: whether the row is as it is before the first decision.
    func belief(in stored: Decision, by proof: [UInt8], of row: DecisionRow, isInitial: Bool) -> Belief {
        state.withLockedValue { state in
            guard let prover = state.prover else { return .stored }
            if let known = state.written.standing[row] ?? state.standing[row] {
                if known == Standing(decision: stored, proof: proof) { return .stored }
                state.plant(row)
                return .instead(known.decision)
            }
            let known = state.remembered.proofs(of: row, of: state.apps[row.id], by: prover)
            guard known?.contains(prover.prove(stored)) ?? true, isInitial || prover.isProved(stored, by: proof) else {
                state.plant(row)
                return .instead(nil)
            }
            if isOnlyWriter { state.written.standing[row] = Standing(decision: stored, proof: proof) }
            return .stored
        }
    }

    /// Whether the row is as siwatch wrote it, as far as a reader can tell. The only writer has to believe it once. Notes nothing.
    func seemsOurs(_ stored: Decision, by proof: [UInt8], in row: DecisionRow, isInitial: Bool) -> Bool {
        state.withLockedValue { state in
            guard let prover = state.prover else { return true }
            return state.standing[row].map { $0 == Standing(decision: stored, proof: proof) }
                ?? (!isOnlyWriter && (isInitial || prover.isProved(stored, by: proof)))
        }
    }

    /// Notes what the transaction writes.
    /// - Returns: its proof.
    func write(_ decision: Decision, in row: DecisionRow) -> [UInt8]? {
        state.withLockedValue { state in
            let proof = state.prover?.prove(decision)
            if isOnlyWriter, let proof { state.written.standing[row] = Standing(decision: decision, proof: proof) }
            return proof
        }
    }

    // MARK: The count of authorized credentials

    /// Whether nobody has counted the authorized credentials of one of these apps since the process began.
    func mustCount(_ apps: [Int64]) -> Bool {
        isOnlyWriter && state.withLockedValue { state in state.prover != nil && apps.contains { state.authorized[$0] == nil } }
    }

    /// Begins the counts that no transaction has begun yet.
    func beginCounts(of apps: [Int64], with found: [Int64: Int]) {
        state.withLockedValue { state in
            for app in apps where state.authorized[app] == nil { state.authorized[app] = [found[app] ?? 0] }
        }
    }

    /// The authorized credentials that an app's revocation limit believes in: none before this process has counted, and the fewer of its
    /// own count and the kept one.
    /// - Returns: also what the kept count has to be.
    func authorized(of app: Int64, kept count: Int) -> (believed: Int, right: Int) {
        state.withLockedValue { state in
            guard isOnlyWriter, state.prover != nil else { return (count, count) }
            guard let known = state.authorized[app], let fewest = known.min() else { return (0, count) }
            let right = known.contains(count) ? count : fewest
            state.authorized[app] = [right]
            if right != count { state.plant(DecisionRow(.limit, app)) }
            return (min(right, count), right)
        }
    }

    func count(_ change: Int, authorizedOf app: Int64) {
        guard isOnlyWriter else { return }
        state.withLockedValue { $0.written.authorized[app, default: 0] += change }
    }
}
