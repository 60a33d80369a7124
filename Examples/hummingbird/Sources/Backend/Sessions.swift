// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

struct Session {
    let userID: String
    let signedInAt: Int64
}

/// Sessions in memory, of one process. Replace them by your table or your Redis.
actor Sessions {
    private var sessions: [String: Session] = [:]
    /// For each user, the time before which sessions have ended.
    private var ends: [String: Int64] = [:]

    func begin(_ session: Session) -> String {
        let key = String.secret
        sessions[key] = session
        return key
    }

    func find(_ key: String) -> Session? {
        // The time is kept and asked here, because a webhook may come before the session that it ends.
        sessions[key].flatMap { $0.signedInAt >= ends[$0.userID] ?? 0 ? $0 : nil }
    }

    func end(_ key: String) {
        sessions[key] = nil
    }

    func endAll(of userID: String) {
        sessions = sessions.filter { $0.value.userID != userID }
    }

    func end(of userID: String, before time: Int64) {
        ends[userID] = max(time, ends[userID] ?? 0)
    }
}

/// Secret links to the ids of deletions.
actor Receipts {
    private var deletions: [String: String] = [:]

    func add(_ deletion: String) -> String {
        let ticket = String.secret
        deletions[ticket] = deletion
        return ticket
    }

    func find(_ ticket: String) -> String? { deletions[ticket] }
}

extension String {
    /// 32 random bytes, in hexadecimal.
    fileprivate static var secret: String {
        var generator = SystemRandomNumberGenerator()
        return (0..<4).map { _ in String(generator.next() as UInt64, radix: 16) }.joined(separator: "-")
    }
}
