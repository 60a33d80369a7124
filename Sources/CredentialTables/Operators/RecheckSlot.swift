// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// When siwatch asks Apple about a credential.
struct RecheckSlot {
    var userID: String
    var client: Int64
    var dueAt: Timestamp
    /// The due time of the check before this change.
    var formerDueAt: Timestamp?
}

extension TableConnection {
    /// Gives credentials an earlier check and drops their pending rejections. Skips a credential that was claimed or moved since it was
    /// read.
    func bringForward(_ slots: [RecheckSlot], of app: Int64) throws {
        let answer = try ask(.findSlots, slots.map { [$0.userID.columnValue, $0.client.columnValue, $0.formerDueAt.columnValue] })
        var moved: [[ColumnValue]] = []
        var pending = 0
        try forEachRow(of: answer) { place, row in
            moved.append([slots[place].userID.columnValue, slots[place].client.columnValue, slots[place].dueAt.columnValue])
            if row.bool(at: 0) { pending += 1 }
        }
        try execute(.moveSlots, moved)
        guard pending > 0 else { return }
        try lockSettlements()
        try execute("UPDATE app SET pending = pending - \(pending) WHERE id = \(app)")
    }
}

extension RowStatement {
    fileprivate static let findSlots = read(
        "t.pending_since IS NOT NULL",
        of: "credential",
        key: ["user_id", "client"],
        others: ["former_due_at"],
        where: "t.claimed_by IS NULL AND t.due_at IS NOT DISTINCT FROM @former_due_at",
        lockedBy: "t.user_id, t.client"
    )
    fileprivate static let moveSlots = update(
        "credential",
        key: ["user_id", "client"],
        ["due_at"],
        others: ", pending_since = NULL, pending_asked_at = NULL, pending_key = NULL"
    )
}
