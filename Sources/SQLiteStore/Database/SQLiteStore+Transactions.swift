// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore {
    /// Runs one write transaction. It begins IMMEDIATE, so that it never fails half-way for want of the lock.
    func write<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        do {
            return try await writer.writeWithoutTransaction { db in
                var value: Value?
                try db.inTransaction(.immediate) {
                    value = try body(db)
                    return .commit
                }
                return value!
            }
        } catch let error as DatabaseError {
            throw StoreError(error)
        }
    }

    func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        do {
            // On the connection that also writes, GRDB reads under a pragma that voids every compiled statement.
            if let memory { return try await memory.writeWithoutTransaction(body) }
            return try await writer.read(body)
        } catch let error as DatabaseError {
            throw StoreError(error)
        }
    }
}

/// Runs code that calls SQLite outside of the ports, and throws the ports' errors.
func translatingErrors<Value>(_ body: () throws -> Value) throws -> Value {
    do {
        return try body()
    } catch let error as DatabaseError {
        throw StoreError(error)
    }
}

extension StoreError {
    /// SQLite's text for an error names tables and columns, never values.
    init(_ error: DatabaseError) {
        let text = "\(error.extendedResultCode): \(error.message ?? "")"
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED: self = .busy
        case .SQLITE_FULL: self = .full()
        case .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG, .SQLITE_RANGE: self = .refused(text)
        case .SQLITE_READONLY, .SQLITE_PERM: self = .readOnly(text)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged(text)
        default: self = .outcomeUnknown(text)
        }
    }
}
