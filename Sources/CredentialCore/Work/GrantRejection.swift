// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Why a sign-in came to nothing, or its token. `words` says what each means.
package enum GrantRejection: String, Sendable, CaseIterable {
    case unknownClientExpired = "unknown_client_expired"
    case malformed
    case unknownTokenKey = "unknown_token_key"
    case unreadableToken = "unreadable_token"
    case poison

    // Reasons for authorization codes only.
    /// The code's five minutes were over, by our clock before siwatch sent it, or by Apple's word.
    case codeExpired = "code_expired"
    case invalidClient = "invalid_client"
    case codeUsed = "code_used"
    case clientMismatch = "client_mismatch"
    case redirectURIMismatch = "redirect_uri_mismatch"
    case userMismatch = "user_mismatch"
    case badIDToken = "bad_id_token"
    /// Apple refused the code in words that siwatch does not know.
    case rejectedByApple = "rejected_by_apple"
    case answerLost = "answer_lost"

    /// Which member of the request is wrong, and why.
    package var words: String {
        switch self {
        case .unknownClientExpired: "client_id was in the client_ids of no [[app]] for as long as the sign-in could wait"
        case .malformed: "a member is too long, or is not text"
        case .unknownTokenKey: "token_sealed was sealed to a key that siwatch does not hold, or for another database; the sign-in counts"
        case .unreadableToken: "token_sealed does not open for this client_id and user_id; the sign-in counts"
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
