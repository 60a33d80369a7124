// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

struct QuarantineReportTests {
    /// Base64 of each length, with and without what it would be padded by.
    @Test(arguments: 0..<6) func theTokenInABodyIsDecoded(length: Int) {
        let claims = #"{"aud":"\#(String(repeating: "ÿ?", count: length))"}"#
        let parts = [#"{"alg":"RS256"}"#, claims].map { part in
            Data(part.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        }
        let body = Array(#"{"payload":"\#(parts.joined(separator: ".")).c2lnbmVk"}"#.utf8)
        let time = Timestamp(seconds: 1_750_000_000)
        let row = QuarantinedNotification(id: 1, receivedAt: time, rejectedAt: time, reason: "expired", detail: "", payload: body)
        let lines = QuarantineReport(row, showsPayload: true).text.split(separator: "\n")
        #expect(lines.contains(#"header    {"alg":"RS256"}"#) && lines.contains("claims    \(claims)"), "\(lines)")
    }
}
