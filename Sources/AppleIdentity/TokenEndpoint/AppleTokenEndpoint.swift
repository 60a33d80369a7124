// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Apple's token endpoint for the clients of one app.
package struct AppleTokenEndpoint: TokenEndpoint {
    private let url: String
    private let secrets: ClientSecrets
    private let transport: any AppleTransport
    private let clock: WallClock

    package init(url: String, secrets: ClientSecrets, transport: any AppleTransport, clock: WallClock) {
        self.url = url
        self.secrets = secrets
        self.transport = transport
        self.clock = clock
    }

    package func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse {
        guard let (clientSecret, identity) = try? await secrets.secret(for: credential.clientID) else {
            return RefreshResponse(
                .misconfigured("the client secret cannot be signed"),
                by: secrets.identity(of: credential.clientID)
            )
        }
        let form: FormBody = [
            "client_id": Secret(credential.clientID),
            "client_secret": clientSecret,
            "grant_type": Secret("refresh_token"),
            "refresh_token": token,
        ]
        do throws(TransportFailure) {
            let response = TokenResponse(
                response: try await transport.send(AppleRequest(.token, url: url, form: form)),
                userID: credential.userID,
                secrets: [token, clientSecret, Secret(credential.userID)],
                receivedAt: clock.now
            )
            return RefreshResponse(response.refreshOutcome, by: identity, date: response.response.date)
        } catch {
            return RefreshResponse(.unavailable(error.rawValue), by: identity)
        }
    }
}
