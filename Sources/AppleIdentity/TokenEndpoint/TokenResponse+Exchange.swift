// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore

extension TokenResponse {
    /// The answer to an `authorization_code` grant.
    var exchangeAnswer: EndpointAnswer<ExchangeNews> { answer(to200: issued, to400: notIssued) }

    private var issued: EndpointAnswer<ExchangeNews> {
        guard let members else {
            return unavailable(response.body == nil ? "200 too large" : "200 without JSON", isAnswerLost: true)
        }
        let (refreshToken, identityToken) = (members["refresh_token"]?.string, members["id_token"]?.string)
        guard refreshToken != nil || identityToken != nil else { return unavailable("200 without tokens", isAnswerLost: true) }
        let tokens = IssuedTokens(
            refreshToken: refreshToken.flatMap { $0.isEmpty ? nil : Secret($0) },
            identityToken: identityToken.map(Secret.init),
            namedUserID: identityToken.flatMap(Self.subject)
        )
        return .news(.issued(tokens))
    }

    private var notIssued: EndpointAnswer<ExchangeNews> {
        switch complaint {
        case .invalidGrant(let description): .news(.refused(Self.refusal(description), detail: complaintText))
        case .invalidRequest: .news(.refused(.rejectedByApple, detail: complaintText))
        case .misconfigured: .misconfigured(complaintText)
        // OAuth's two errors for a server's own trouble.
        case .other(nil), .other("server_error"), .other("temporarily_unavailable"): unavailable(complaintText)
        case .other: .news(.refused(.rejectedByApple, detail: complaintText))
        }
    }

    /// Apple documents none of these texts, but all were seen. In December 2022 Apple said "token" of codes for some days.
    private static func refusal(_ description: JSON?) -> GrantRejection {
        let text = description?.string?.lowercased() ?? ""
        if text.contains("already been used") { return .codeUsed }
        if text.contains("client_id mismatch") { return .clientMismatch }
        if text.contains("redirect_uri mismatch") { return .redirectURIMismatch }
        if text.contains("expired") || text.contains("revoked") { return .codeExpired }
        return .rejectedByApple
    }
}
