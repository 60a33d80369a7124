// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The latest notifications, kept to send any of them again unchanged.
struct NotificationLog: Sendable {
    static let kept = 10_000

    /// A ring: once it is full, `next` is the oldest and the next to go.
    private var ring: [SignedNotification] = []
    private var next = 0

    mutating func append(_ notification: SignedNotification) {
        if ring.count < Self.kept {
            ring.append(notification)
        } else {
            ring[next] = notification
            next = (next + 1) % Self.kept
        }
    }

    /// Oldest first.
    var all: [SignedNotification] { Array(ring[next...] + ring[..<next]) }

    subscript(id: String) -> SignedNotification? {
        ring.last { $0.id == id }
    }
}
