// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables

@testable import PostgresStore
@testable import SQLiteStore
@testable import siwatch

/// A full file, and an empty schema.
struct MoveScene {
    let full: FullFile
    let address: PostgresAddress
    var store: StoreUnderTest { full.store }

    init() async throws {
        full = try await FullFile()
        address = try PostgresUnderTest.address()
        _ = try PostgresStore.open(address)
    }

    func move() throws -> StoreMove {
        StoreMove(source: try full.contents(), destination: try PostgresContents(address), progress: ProgressLine.silent)
    }

    func back(to file: TemporaryFile) throws -> StoreMove {
        let destination = try SQLiteContents(DatabaseFile(path: file.path))
        return StoreMove(source: try PostgresContents(address), destination: destination, progress: ProgressLine.silent)
    }

    func departure() throws -> Departure? {
        do {
            _ = try full.database.inspect()
            return nil
        } catch DatabaseFile.Unusable.departed(_, let departure) {
            return departure
        }
    }
}
