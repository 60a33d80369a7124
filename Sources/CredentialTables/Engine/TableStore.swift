// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import NIOConcurrencyHelpers

/// A store with its tables in an SQL database.
///
/// An engine provides connections, claims and settlements. Code for both engines is here: reading, the operators' desk, upkeep and
/// registration. What opens a connection throws `StoreError`.
package protocol TableStore: CredentialStore {
    associatedtype Connection: TableConnection

    var directory: NIOLockedValueBox<ClientDirectory> { get }
    var decisions: DecisionBook { get }
    var retention: Retention { get }
    /// This process's name.
    var owner: String { get }
    var upkeep: NIOLockedValueBox<UpkeepProgress> { get }

    /// Reads one snapshot; in a short query of a server, as many as it has statements.
    func query<Value: Sendable>(_ kind: QueryKind, _ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value

    func transaction<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value

    /// Blocks the caller, for opening the store.
    func blockingQuery<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value

    func blockingTransaction<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value

    /// Runs a claim. SQLite chooses before it takes the write lock, so that no backend waits for the choice.
    /// - Parameter choose: nil if there is nothing to take.
    func claim<Choice: Sendable, Work: Sendable>(
        choosing choose: @escaping @Sendable (Connection) throws -> Choice?,
        taking take: @escaping @Sendable (Connection, Choice) throws -> [Work]
    ) async throws -> [Work]

    /// Claims due rows of a queue, longest due first. Sign-ins that are due again may come first.
    /// - Parameter read: reads `id`, `attempts`, the due time and the columns of the lane.
    func claimRows<Work: Sendable>(
        of lane: QueueLane,
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        _ read: @escaping @Sendable (Connection.AnswerRow) -> Work
    ) async throws -> [Work]

    func queues(in connection: Connection) throws -> [QueueStatus]

    /// For the queues of notifications and sign-ins, how many rows could be taken now, counted up to `limit` for each lane.
    func dueRows(at now: Timestamp, upTo limit: Int, in connection: Connection) throws -> [String: Int]

    /// Makes sign-ins due that waited for a client of these apps. The store has just registered the apps.
    func tookIn(_ apps: [AppClients]) throws

    /// Notes that siwatch erased a sealed token from a row. The files may still hold the token.
    func tokenWasErased()

    /// Tells the engine that postponed notifications are due. For an engine that remembers how far its claims have looked.
    func notificationsWereReleased() async

    func forgetOwn(at now: Timestamp) async throws
}

extension TableStore {
    package func query<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        try await query(.long, body)
    }
}

package enum QueryKind: Sendable {
    case long
    /// A query that never waits for a long one.
    case short
    /// A query that a lane waits for.
    case ofLane
}

package struct UpkeepProgress: Sendable {
    /// How far siwatch has searched each table for old rows.
    var pruning: [String: PruneProgress] = [:]
    /// The last user that the walk for ended users has seen.
    var walkedUsers = ""
    /// How far the sealed bytes have been walked.
    var resealing = SealedPlace()
    /// By table, the greatest id up to which every value that retention erases from rows is erased.
    var erasedUpTo: [String: Int64] = [:]
    /// The claims of rows that wait for Apple.
    var claims = 0

    package init() {}
}

extension TableStore {
    /// A name for one claim. A settlement begins the count of attempts anew, so a late answer to an earlier claim could pass for this one's.
    func claimName() -> String {
        upkeep.withLockedValue { upkeep in
            upkeep.claims += 1
            return "\(owner).\(upkeep.claims)"
        }
    }
}
