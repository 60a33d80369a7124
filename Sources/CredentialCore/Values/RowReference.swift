// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Names a row over HTTP: by its number, and by what stays the same of it, because after a restore another row gets the number.
package struct RowReference: Sendable, Hashable, LosslessStringConvertible, Encodable {
    package var id: Int64
    /// The time that the row keeps for its life: `granted_at` of a sign-in, `requested_at` of a deletion, `recorded_at` of a change.
    package var time: Timestamp
    /// A checksum of the user that a backend told with the row. Backends give such rows their times, and those of two users may be the same.
    package var user: UInt32?

    /// - Parameter userID: nil if Apple tells who it is, or if the row shows nothing of the user.
    package init(id: Int64, time: Timestamp, userID: String? = nil) {
        self.id = id
        self.time = time
        user = userID.map(Self.checksum)
    }

    package static let beforeAll = RowReference(id: 0, time: Timestamp(milliseconds: 0))

    /// Whether it names the row that has its number now. The receipt of a forgotten user stays, and nobody can tell whose it is.
    package func names(_ row: RowReference, of userID: String?) -> Bool {
        let isOfUser = user == nil || user == userID.map(Self.checksum) || userID.map(ForgottenUser.isName) ?? false
        return id == row.id && time == row.time && isOfUser
    }

    /// 32-bit FNV-1a.
    private static func checksum(_ text: String) -> UInt32 {
        text.utf8.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }

    /// `17-mh6ev6r4`, or `17-mh6ev6r4-1z141z3`: the time in milliseconds and the checksum, to the base of 36.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2 || parts.count == 3, parts[0].utf8.count <= 15, parts[1].utf8.count <= 9, let id = Int64(parts[0]),
            let time = Int64(parts[1], radix: 36)
        else { return nil }
        self.init(id: id, time: Timestamp(milliseconds: time))
        if parts.count == 3 {
            guard let user = UInt32(parts[2], radix: 36) else { return nil }
            self.user = user
        }
        guard description == text else { return nil }
    }

    package var description: String {
        "\(id)-\(String(time.milliseconds, radix: 36))" + (user.map { "-" + String($0, radix: 36) } ?? "")
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
