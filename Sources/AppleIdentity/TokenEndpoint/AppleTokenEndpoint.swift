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
        self.url = url
        self.revocationURL = revocationURL
        self.secrets = secrets
        self.transport = transport
        self.clock = clock
        self.mayAsk = mayAsk
    }

    package func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse {
        await ask(
            .token,
            of: credential.clientID,
            ["grant_type": Secret("refresh_token"), "refresh_token": token],
            secrets: [token, Secret(credential.userID)]
        ) {
            $0.refreshAnswer(for: credential.userID)
        }
    }

    package func exchange(_ code: Secret, redirectURI: String?, of clientID: String) async -> ExchangeResponse {
        var parameters: FormBody = ["grant_type": Secret("authorization_code"), "code": code]
        if let redirectURI { parameters.fields.append(FormBody.Field(name: "redirect_uri", value: Secret(redirectURI))) }
        return await ask(.token, of: clientID, parameters, secrets: [code]) { $0.exchangeAnswer }
    }

    package func revoke(_ token: Secret, of clientID: String) async -> RevokeResponse {
        await ask(.revoke, of: clientID, ["token": token, "token_type_hint": Secret("refresh_token")], secrets: [token]) {
            $0.revokeAnswer
        }
    }

    /// Asks whether Apple accepts the client with the key and the team that sign now.
    ///
    /// The grant is for moving users to another team. It names no user and changes nothing at Apple. siwatch drops the access token.
    package func prove(_ clientID: String) async -> EndpointResponse<ClientNews> {
        await ask(
            .token,
            of: clientID,
            ["grant_type": Secret("client_credentials"), "scope": Secret("user.migration")],
            secrets: []
        ) {
            $0.clientAnswer
        }
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
        let client: FormBody = ["client_id": Secret(clientID), "client_secret": clientSecret]
        let form = FormBody(client.fields + parameters.fields)
        do throws(TransportFailure) {
            let url = endpoint == .revoke ? revocationURL : url
            let request = AppleRequest(endpoint: endpoint, url: url, form: form, mayBeSent: mayAsk)
            let response = TokenResponse(
                response: try await transport.send(request),
                secrets: sent + [clientSecret],
                receivedAt: clock.now
            )
            let said = answer(response)
            // The answer may have shown that our clock is ahead of Apple's. Then the secret was one from the future, and the next is not.
            if case .misconfigured = said, !isRepeat, let next = try? await secrets.secret(for: clientID), next.secret != clientSecret,
                next.identity == identity
            {
                return await ask(endpoint, of: clientID, parameters, secrets: sent, isRepeat: true, answer: answer)
            }
            return EndpointResponse(said, by: identity, date: response.response.date)
        } catch {
            return EndpointResponse(.unavailable(error.rawValue, isAnswerLost: error.mayHaveArrived), by: identity)
        }
    }
}
