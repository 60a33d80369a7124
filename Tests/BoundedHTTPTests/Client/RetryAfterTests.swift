// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import BoundedHTTP

@Suite struct RetryAfterTests {
    /// Thu, 09 Oct 2025 08:53:20 GMT.
    private let now = Timestamp(seconds: 1_760_000_000)

    @Test(arguments: [
        ("0" as String?, Duration.seconds(0) as Duration?), ("120", .seconds(120)), (" 120\t", .seconds(120)), ("86401", .seconds(86_400)),
        ("9223372036854775807", .seconds(86_400)), ("99999999999999999999999999", .seconds(86_400)),
        ("Thu, 09 Oct 2025 08:55:20 GMT", .seconds(120)), ("Thursday, 09-Oct-25 08:55:20 GMT", .seconds(120)),
        ("Thu Oct  9 08:55:20 2025", .seconds(120)), ("Thu, 09 Oct 2025 08:00:00 GMT", .seconds(0)),
        ("Thu, 09 Oct 2125 08:00:00 GMT", .seconds(86_400)),
        (nil, nil), ("", nil), (" ", nil), ("-1", nil), ("1.5", nil), ("1 2", nil), ("soon", nil), ("٣", nil),
        ("Thu, 09 Oct 2025 08:55:20 CET", nil), ("Thu, 09 Okt 2025 08:55:20 GMT", nil), ("Thu, 32 Oct 2025 08:55:20 GMT", nil),
        ("Thu, 09 Oct 2025 24:55:20 GMT", nil), ("Thu, 09 Oct 2025 08:55 GMT", nil), ("Thu, 09 Oct -2025 08:55:20", nil),
    ])
    func readsSecondsAndDates(_ header: String?, _ expected: Duration?) {
        #expect(RetryAfter.duration(header, at: now) == expected)
    }

    @Test(arguments: [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0 as Int64), ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
        ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200), ("Mon, 28 Feb 2100 00:00:00 GMT", 4_107_456_000),
        ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
    ])
    func knowsTheCalendar(_ date: String, _ seconds: Int64) {
        #expect(HTTPDate.parse(date) == Timestamp(seconds: seconds))
    }
}
