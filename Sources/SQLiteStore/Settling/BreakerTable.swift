// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import GRDB

/// The breakers of the apps that one transaction touches: state and answers are committed together, so a crash never leaves them apart.
struct BreakerTable {
    private let db: Database
    private let rules: SettlementRules
    private let now: Timestamp
    private var entries: [ClientDirectory.App: Entry] = [:]

    private struct Entry {
        var stored: RejectionBreaker
        var breaker: RejectionBreaker
        /// Whether it opened in this transaction, closed again or not.
        var hasOpened = false
    }

    init(db: Database, rules: SettlementRules, now: Timestamp) {
        self.db = db
        self.rules = rules
        self.now = now
    }

    /// Those that changed, by the name of their app.
    var judged: [String: RejectionBreaker] {
        Dictionary(uniqueKeysWithValues: entries.filter { $0.value.breaker != $0.value.stored }.map { ($0.key.name, $0.value.breaker) })
    }

    /// Whether it is open, or was for a moment in this transaction.
    mutating func isOrWasOpen(_ app: ClientDirectory.App) throws -> Bool {
        let isOpen = try with(app) { $0.isOpen }
        return isOpen || entries[app]?.hasOpened == true
    }

    mutating func judge(
        _ finding: RejectionBreaker.Finding,
        of subject: RejectionBreaker.Subject,
        in app: ClientDirectory.App
    ) throws -> RejectionBreaker.Admission {
        try with(app) { [rules, now] in $0.judge(finding, of: subject, under: rules.breaker, at: now) }
    }

    mutating func forget(canary: CredentialID, of app: ClientDirectory.App) throws {
        try with(app) { [now] in $0.forget(canary: canary, at: now) }
    }

    private mutating func with<Result>(_ app: ClientDirectory.App, _ body: (inout RejectionBreaker) -> Result) throws -> Result {
        var entry: Entry
        if let known = entries[app] {
            entry = known
        } else {
            let text = try Self.text(of: app.id, in: db)
            let stored = text.map(Self.breaker) ?? RejectionBreaker()
            // What takes the place of a state that cannot be read is written down, with its time.
            entry = Entry(stored: stored ?? RejectionBreaker(), breaker: stored ?? .distrustful(since: now))
        }
        let wasOpen = entry.breaker.isOpen
        let result = body(&entry.breaker)
        if !wasOpen, entry.breaker.isOpen { entry.hasOpened = true }
        entries[app] = entry
        return result
    }

    /// Opening clears the rejections that wait: their users are asked about again at the daily check.
    func save() throws {
        for (app, entry) in entries {
            if entry.breaker != entry.stored { try Self.save(entry.breaker, of: app.id, in: db) }
            if entry.hasOpened { try Self.clearPending(of: app.id, interval: rules.policy.interval, in: db) }
        }
    }

    /// Forgets canaries and clients that the configuration names no more: no answer about them will come.
    mutating func keep(canaries: Set<String>, clients: Set<String>, of app: ClientDirectory.App) throws {
        try with(app) { [now] in $0.keep(canaries: canaries, clients: clients, at: now) }
    }

    // MARK: The table

    /// A state that this program cannot read, of another release or by hand, may have been an open breaker.
    static func load(_ app: Int64, at now: Timestamp, in db: Database) throws -> RejectionBreaker {
        try text(of: app, in: db).map { breaker($0) ?? .distrustful(since: now) } ?? RejectionBreaker()
    }

    private static func text(of app: Int64, in db: Database) throws -> String? {
        try String.fetchOne(db.cachedStatement(sql: "SELECT state FROM breaker WHERE app = ?"), arguments: [app])
    }

    /// Nil where it cannot be read.
    static func breaker(_ state: String) -> RejectionBreaker? {
        JSONText.decode(state)
    }

    static func save(_ breaker: RejectionBreaker, of app: Int64, in db: Database) throws {
        try db.execute(
            cached: "INSERT INTO breaker (app, state) VALUES (?, ?) ON CONFLICT (app) DO UPDATE SET state = excluded.state",
            [app, try JSONText.encode(breaker)]
        )
    }

    private static func clearPending(of app: Int64, interval: Duration, in db: Database) throws {
        try db.execute(
            cached: """
                UPDATE credential SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL,
                                      due_at = MAX(due_at, answered_at + ?2)
                 WHERE app = ?1 AND pending_since IS NOT NULL
                """,
            [app, interval.milliseconds]
        )
        try db.execute(cached: "UPDATE app SET pending = 0 WHERE id = ?", [app])
    }
}
