// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The body of a notification as a backend may queue it: `{"payload":"<JWS>"}` as Apple posted it, or the bare JWS.
enum NotificationBody {
    /// In bytes.
    static let largest = Queue.longestNotification

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
