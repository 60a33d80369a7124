// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation

@testable import PostgresStore
@testable import SQLiteStore

/// The stores that the conformance suite holds to the ports.
///
/// What is meant to differ in PostgreSQL:
/// - A text holds no NUL and nothing but UTF-8: what SQLite keeps and siwatch rejects as malformed, the server refuses.
/// - No process is alone, so no start voids another's claims: they end with their leases.
/// - What is erased is the server's to overwrite.
///
/// So these are SQLite's alone: `whatIsNoTextOrTooLongIsMalformed` and `aNULIsRefusedWhereItWouldHideATail` of `RevocationTests`,
/// `whatIsNoTextOrTooLongIsMalformed` and `oddCountsHarmNobody` of `CodeClaimTests`, and `aRenamedAppHasItsReceipts` of `ReceiptTests`,
/// whose call is in no port. `BackendTextTests` is their counterpart.
enum StoreKind: CaseIterable {
    case memory, file, postgres

    /// One of each store, for what is the same in memory and in a file, and takes long.
    static let oneOfEach: [StoreKind] = [.memory, .postgres]

    func make(retention: Retention = Retention()) throws -> StoreUnderTest {
        switch self {
        case .memory:
            let store = try SQLiteStore.inMemory(retention: retention)
            return try StoreUnderTest(store, door: SQLiteDoor(store.writer)) {}
        case .file:
            let file = try TemporaryFile()
            let store = try SQLiteStore.open(DatabaseFile(path: file.path), retention: retention)
            return try StoreUnderTest(store, door: SQLiteDoor(asBackendOf: file.path)) { file.remove() }
        case .postgres:
            return try PostgresUnderTest.store(PostgresStore.open(PostgresUnderTest.address(), retention: retention))
        }
    }
}

extension StoreUnderTest {
    convenience init(_ store: SQLiteStore, door: any SQLDoor, tearDown: @escaping @Sendable () -> Void) throws {
        try self.init(
            ports: store,
            door: door,
            register: { name, clientIDs in try store.register([AppClients(name: name, clientIDs: clientIDs)]) },
            // Holding the only lock on the database, it knows that every claim is void.
            restart: { now in
                try store.recover()
                return now
            },
            tearDown: tearDown
        )
    }
}
