// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user in one app group.
package struct AppUserID: Sendable, Hashable {
    package var app: String
    package var userID: String

    package init(app: String, userID: String) {
        self.app = app
        self.userID = userID
    }

    /// Compares bytes, as the tables do. `String` would take two spellings of one character for equal.
    package static func == (left: AppUserID, right: AppUserID) -> Bool {
        left.userID.utf8.elementsEqual(right.userID.utf8) && left.app.utf8.elementsEqual(right.app.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var (app, userID) = (app, userID)
        app.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        userID.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
