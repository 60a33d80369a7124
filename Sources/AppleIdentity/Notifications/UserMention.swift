// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Finds a user in notifications that nobody has verified.
package struct UserMention: Sendable {
    private let userID: [UInt8]
    private let clientIDs: [[UInt8]]?

    /// - Parameter clientIDs: the message has to name one of these clients too; nil if any will do.
    package init(of userID: String, at clientIDs: [String]? = nil) {
        self.userID = Array(userID.utf8)
        self.clientIDs = clientIDs?.map { Array($0.utf8) }
    }

    /// Whether a body names the user, in its claims or anywhere in a body that is no token.
    package func isFound(in payload: [UInt8]) -> Bool {
        let text = (try? NotificationBody.token(in: payload)).flatMap(CompactJWS.uncheckedClaims) ?? payload
        guard text.names(userID) else { return false }
        return clientIDs?.contains { text.names($0) } ?? true
    }
}

extension [UInt8] {
    /// Whether the name stands here, and not as a part of a longer name.
    fileprivate func names(_ name: [UInt8]) -> Bool {
        guard let first = name.first, count >= name.count else { return false }
        for start in 0...(count - name.count) where self[start] == first {
            let end = start + name.count
            guard self[start..<end].elementsEqual(name) else { continue }
            if (start == 0 || !self[start - 1].isOfName) && (end == count || !self[end].isOfName) { return true }
        }
        return false
    }
}

extension UInt8 {
    fileprivate var isOfName: Bool { isLetterOrDigit || self == UInt8(ascii: ".") || self == UInt8(ascii: "-") }
}
