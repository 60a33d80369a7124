// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension SignInOutcome {
    /// Which member of the request is wrong, and why, with the words in the log at the end. Nil unless the sign-in was rejected.
    var explanation: String? {
        if outcome == GrantLogOutcome.inFuture.rawValue { return "signed_in_at was still ahead of Apple's clock after a week" }
        guard let rejection = reason.flatMap(GrantRejection.init) else { return detail }
        // The verifier names the claim that does not match.
        if rejection == .badIDToken, let nonce = detail?.split(separator: ": nonce: ", maxSplits: 1), nonce.count == 2 {
            return "nonce is not the one in the id_token: \(nonce[1])"
        }
        return [rejection.words, detail].compactMap(\.self).joined(separator: ": ")
    }
}

extension GrantRejection {
    /// Which member of the request is wrong, and why.
    package var words: String {
        switch self {
        case .unknownClientExpired: "client_id was in the client_ids of no [[app]] for as long as the sign-in could wait"
        case .malformed: "a member is too long, or is not text"
        case .unknownTokenKey: "refresh_token was sealed to a key that siwatch does not hold; the sign-in counts"
        case .unreadableToken: "refresh_token does not open for this client_id and user_id; the sign-in counts"
        case .poison: "siwatch died five times while it held the sign-in"
        case .codeExpired: "code is older than five minutes, or Apple does not know it"
        case .invalidClient: "Apple refuses client_id, or siwatch's key or Team ID, and never looked at the code in its five minutes"
        case .codeUsed: "code was exchanged before"
        case .clientMismatch: "client_id is not the one that Apple issued the code to"
        case .redirectURIMismatch: "redirect_uri is not the one that the sign-in named; a native sign-in has none"
        case .userMismatch: "user_id is not the user that Apple issued the code for"
        case .badIDToken: "the id_token that Apple sent for the code does not verify"
        case .rejectedByApple: "Apple refused the code; if the sign-in named a redirect_uri, as on the web, it must come along"
        case .answerLost: "Apple may have exchanged the code, and its answer was lost; the code is used up"
        }
    }
}
