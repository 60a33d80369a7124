// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// How many connections may be open, and how long each may take.
package struct ConnectionLimits: Sendable {
    /// Beyond this number, the connection that has been idle for longest is closed.
    package var count: Int
    /// From the connection to the end of the head of its first request, however slowly the bytes come.
    package var request: Duration
    /// From the head of a request to the last byte of the answer that the client takes.
    package var answer: Duration
    /// From an answer to the next request. Scrapers commonly ask once a minute, over one connection.
    package var idle: Duration

    package init(
        count: Int = 64,
        request: Duration = .seconds(10),
        answer: Duration = .seconds(30),
        idle: Duration = .minutes(2)
    ) {
        self.count = count
        self.request = request
        self.answer = answer
        self.idle = idle
    }
}
