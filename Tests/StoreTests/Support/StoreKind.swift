// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation

@testable import PostgresStore
@testable import SQLiteStore

/// The stores that must pass the conformance suite.
///
/// PostgreSQL's intended differences:
/// - A text holds no NUL and only UTF-8. SQLite keeps other bytes and siwatch rejects them as malformed. The server refuses them.
/// - No process is alone, so no start voids another's claims. They end with their leases.
/// - The server overwrites erased data at its own time.
///
/// So these are SQLite's alone: `whatIsNoTextOrTooLongIsMalformed` and `aNULIsRefusedWhereItWouldHideATail` of `RevocationTests`,
/// `whatIsNoTextOrTooLongIsMalformed` and `oddCountsHarmNobody` of `CodeClaimTests`, and `aRenamedAppHasItsReceipts` of `ReceiptTests`,
/// whose call is in no port. `BackendTextTests` is their counterpart.
enum StoreKind: CaseIterable {
    case file, postgres

    func make(retention: Retention = Retention()) throws -> StoreUnderTest {
        switch self {
        case .file:
            let file = try TemporaryFile.migrated()
            let store = try SQLiteStore.open(DatabaseFile(path: file.path), retention: retention)
            return try StoreUnderTest(store, door: SQLiteDoor(asBackendOf: file.path)) { file.remove() }
        case .postgres:
            return try PostgresUnderTest.store(PostgresStore.open(SchemaPool.take(), retention: retention))
        }
    }
}

extension StoreUnderTest {
    convenience init(_ store: SQLiteStore, door: any SQLDoor, tearDown: @escaping @Sendable () -> Void) throws {
        try self.init(
            ports: store,
            door: door,
            register: { name, clientIDs in try store.register([AppClients(name: name, clientIDs: clientIDs)]) },
            // The process holds the only lock on the database, so it knows that every claim is void.
            restart: { now in
                try store.recover()
                return now
            },
            tearDown: tearDown
        )
    }
}
