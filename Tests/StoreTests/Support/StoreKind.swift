// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import PostgresStore

/// The stores that must pass the conformance suite.
///
/// PostgreSQL's intended differences:
/// - A text holds no NUL and only UTF-8. SQLite keeps other bytes and siwatch rejects them as malformed. The server refuses them.
/// - No process is alone, so no start voids another's claims. They end with their leases.
/// - The server overwrites erased data at its own time.
///
/// So these are SQLite's alone: `whatIsNoTextOrTooLongIsMalformed` and `aNULIsRefusedWhereItWouldHideATail` of `RevocationTests`,
/// `whatIsNoTextOrTooLongIsMalformed` and `oddCountsHarmNobody` of `CodeClaimTests`. `BackendTextTests` is their counterpart.
enum StoreKind: CaseIterable {
    case file, postgres

    func make(retention: Retention = Retention()) throws -> StoreUnderTest {
        switch self {
        case .file: try StoreUnderTest(retention: retention)
        case .postgres: try StoreUnderTest(PostgresStore.open(SchemaPool.take(), retention: retention))
        }
    }
}
