// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
package import CredentialCore

/// Apple's token endpoints for the clients of one app.
package struct AppleTokenEndpoint: TokenEndpoint {
    private let url: String
    private let revocationURL: String
    private let secrets: ClientSecrets
    private let transport: any AppleTransport
    private let clock: WallClock
    private let mayAsk: (@Sendable () -> Bool)?

    /// - Parameter mayAsk: whether this process may ask Apple, checked as each request is written; nil if it always may.
    package init(
        url: String,
        revocationURL: String,
        secrets: ClientSecrets,
        transport: any AppleTransport,
        clock: WallClock,
        mayAsk: (@Sendable () -> Bool)? = nil
    ) {
        (self.url, self.revocationURL, self.secrets) = (url, revocationURL, secrets)
        (self.transport, self.clock, self.mayAsk) = (transport, clock, mayAsk)
    }

    package func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse {
        let parameters: FormBody = ["grant_type": Secret("refresh_token"), "refresh_token": token]
        return await ask(.token, of: credential.clientID, parameters, secrets: [token, Secret(credential.userID)]) {
            $0.refreshAnswer(for: credential.userID)
        }
    }

    package func exchange(_ code: Secret, redirectURI: String?, of clientID: String) async -> ExchangeResponse {
        var parameters: FormBody = ["grant_type": Secret("authorization_code"), "code": code]
        if let redirectURI { parameters.fields.append((name: "redirect_uri", value: Secret(redirectURI))) }
        return await ask(.token, of: clientID, parameters, secrets: [code]) { $0.exchangeAnswer }
    }

    package func revoke(_ token: Secret, of clientID: String) async -> RevokeResponse {
        let parameters: FormBody = ["token": token, "token_type_hint": Secret("refresh_token")]
        return await ask(.revoke, of: clientID, parameters, secrets: [token]) { $0.revokeAnswer }
    }

    /// Asks whether Apple accepts the client with the key and the team that sign now, by the grant that is for moving users to another
    /// team. It names no user and changes nothing at Apple. siwatch drops the access token.
    package func prove(_ clientID: String) async -> EndpointResponse<ClientNews> {
        let parameters: FormBody = ["grant_type": Secret("client_credentials"), "scope": Secret("user.migration")]
        return await ask(.token, of: clientID, parameters, secrets: []) { $0.clientAnswer }
    }

    /// - Parameters:
    ///   - sent: secrets that no text of ours may repeat, besides the client secret.
    ///   - isRepeat: whether Apple has refused an earlier client secret.
    private func ask<News>(
        _ endpoint: AppleEndpoint,
        of clientID: String,
        _ parameters: FormBody,
        secrets sent: [Secret],
        isRepeat: Bool = false,
        answer: (TokenResponse) -> EndpointAnswer<News>
    ) async -> EndpointResponse<News> {
        guard let (clientSecret, identity) = try? await secrets.secret(for: clientID) else {
            return EndpointResponse(.misconfigured("the client secret cannot be signed"), by: secrets.identity(of: clientID))
        }
        var form: FormBody = ["client_id": Secret(clientID), "client_secret": clientSecret]
        form.fields += parameters.fields
        do throws(TransportFailure) {
            let url = endpoint == .revoke ? revocationURL : url
            let response = try await transport.send(AppleRequest(endpoint: endpoint, url: url, form: form, mayBeSent: mayAsk))
            let said = answer(TokenResponse(response: response, secrets: sent + [clientSecret], receivedAt: clock.now))
            // The answer may have shown that our clock is ahead of Apple's. Then the secret was one from the future, and the next is not.
            if case .misconfigured = said, !isRepeat, let next = try? await secrets.secret(for: clientID), next.secret != clientSecret,
                next.identity == identity
            {
                return await ask(endpoint, of: clientID, parameters, secrets: sent, isRepeat: true, answer: answer)
            }
            return EndpointResponse(said, by: identity, date: response.date)
        } catch {
            return EndpointResponse(.unavailable(error.rawValue, isAnswerLost: error.mayHaveArrived), by: identity)
        }
    }
}
