// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Answers as tests write them, by their news alone.
extension EndpointAnswer<RefreshNews> {
    package static var valid: Self { .news(.valid) }
    package static var unnamed: Self { .news(.unnamed) }
    package static var rejected: Self { .news(.rejected) }
    package static var anotherUser: Self { .news(.anotherUser) }
    package static func ambiguous(_ detail: String) -> Self { .news(.ambiguous(detail)) }
}

extension EndpointAnswer<ExchangeNews> {
    package static func issued(_ tokens: IssuedTokens) -> Self { .news(.issued(tokens)) }
    package static func refused(_ reason: GrantRejection, detail: String) -> Self { .news(.refused(reason, detail: detail)) }
}

extension EndpointAnswer<RevokeNews> {
    package static var accepted: Self { .news(.accepted) }
}
