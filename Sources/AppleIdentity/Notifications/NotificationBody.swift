// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What a backend may put into the queue: the body that Apple posted, `{"payload":"<JWS>"}`, or the bare JWS.
enum NotificationBody {
    /// In bytes.
    static let largest = 65_536

    /// The compact JWS inside.
    ///
    /// JSON white space around it is tolerated in both forms, for a file that ends in a newline; none inside a bare JWS is.
    /// Other members of the body are ignored.
    ///
    /// - Throws: `malformed`. A NUL anywhere is, so that no reader who stops at one sees another token than we do.
    static func token(in payload: [UInt8]) throws(VerificationError) -> ArraySlice<UInt8> {
        guard payload.count <= largest else { throw .rejected(.malformed, detail: "larger than 64 KiB") }
        guard !payload.contains(0) else { throw .rejected(.malformed, detail: "NUL") }
        guard let first = payload.firstIndex(where: { !$0.isJSONWhiteSpace }),
            let last = payload.lastIndex(where: { !$0.isJSONWhiteSpace })
        else { throw .rejected(.malformed, detail: "empty") }
        guard payload[first] == UInt8(ascii: "{") else { return payload[first...last] }
        guard let body = (try? JSON(payload))?.object else { throw .rejected(.malformed, detail: "body is not JSON") }
        guard let token = body["payload"]?.string else { throw .rejected(.malformed, detail: "body without payload") }
        return Array(token.utf8)[...]
    }
}
