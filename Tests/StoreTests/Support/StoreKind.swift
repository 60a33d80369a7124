// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

@testable import SQLiteStore

/// The stores that the conformance suite holds to the ports. One that comes later is one more case.
enum StoreKind: CaseIterable {
    case memory, file

    func make(retention: Retention = Retention()) throws -> StoreUnderTest {
        switch self {
        case .memory:
            let store = try SQLiteStore.inMemory(retention: retention)
            return try StoreUnderTest(store, door: SQLiteDoor(store.writer)) {}
        case .file:
            let file = try TemporaryFile()
            let store = try SQLiteStore.open(DatabaseFile(path: file.path), retention: retention)
            return try StoreUnderTest(store, door: SQLiteDoor(asBackendOf: file.path)) { file.remove() }
        }
    }
}

extension StoreUnderTest {
    convenience init(_ store: SQLiteStore, door: any SQLDoor, tearDown: @escaping @Sendable () -> Void) throws {
        try self.init(
            ports: store,
            door: door,
            register: { name, clientIDs in try store.register([AppClients(name: name, clientIDs: clientIDs)]) },
            tearDown: tearDown
        )
    }
}
