// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Names a row over HTTP: by its number, and by its time, because after a restore another row gets the number.
package struct RowReference: Sendable, Hashable {
    package var id: Int64
    /// The time that the row keeps for its life: of a sign-in its `granted_at`, of a deletion its `requested_at`, of a change its
    /// `recorded_at`.
    package var time: Timestamp

    package init(id: Int64, time: Timestamp) {
        self.id = id
        self.time = time
    }

    /// Stands before every row.
    package static let beforeAll = RowReference(id: 0, time: Timestamp(milliseconds: 0))
}

/// `17-mh6ev6r4`: the time in milliseconds, to the base of 36.
extension RowReference: LosslessStringConvertible {
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let id = Int64(parts[0]), let time = Int64(parts[1], radix: 36) else { return nil }
        self.init(id: id, time: Timestamp(milliseconds: time))
        guard description == text, id >= 0 else { return nil }
    }

    package var description: String { "\(id)-\(String(time.milliseconds, radix: 36))" }
}

extension RowReference: Encodable {
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
