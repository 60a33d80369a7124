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

/// The body of a notification as a backend may queue it: `{"payload":"<JWS>"}` as Apple posted it, or the bare JWS.
enum NotificationBody {
    /// In bytes.
    static let largest = 65_536

    /// The compact JWS in a body. JSON white space may stand around both forms, as in a file that ends in a newline.
    ///
    /// - Throws: `malformed`, also for any NUL, so that no reader that stops at a NUL sees another token.
    static func token(in payload: [UInt8]) throws(VerificationError) -> ArraySlice<UInt8> {
        guard payload.count <= largest else { throw .rejected(.malformed, detail: "larger than 64 KiB") }
        guard !payload.contains(0) else { throw .rejected(.malformed, detail: "NUL") }
        guard let first = payload.firstIndex(where: { !$0.isJSONWhiteSpace }),
            let last = payload.lastIndex(where: { !$0.isJSONWhiteSpace })
        else { throw .rejected(.malformed, detail: "empty") }
        guard payload[first] == UInt8(ascii: "{") else { return payload[first...last] }
        guard let body = JSON(payload)?.object else { throw .rejected(.malformed, detail: "body is not JSON") }
        guard let token = body["payload"]?.string else { throw .rejected(.malformed, detail: "body without payload") }
        return Array(token.utf8)[...]
    }
}
