// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Bugs of codes and revocations.
extension PlantedBug {
    /// The codes that the process gets in place of the claimed ones.
    func codes(_ codes: [ClaimedCode], at now: Timestamp) -> [ClaimedCode] {
        guard self == .codeSentLate else { return codes }
        return codes.map { code in
            var code = code
            (code.grantedAt, code.firstClaimedAt) = (now, now)
            return code
        }
    }

    /// The revocations that the process gets in place of the claimed ones.
    func revocations(_ revocations: [DueRevocation]) -> [DueRevocation] {
        guard self == .overtakenIgnored else { return revocations }
        return revocations.map { revocation in
            var revocation = revocation
            revocation.newerSignIn = .none
            return revocation
        }
    }

    func laneSettlement(_ settlement: Settlement, at now: Timestamp) -> Settlement {
        switch (self, settlement) {
        case (.refusalTakenForOutage, .code(let work, .rejected(let reason, _))) where reason != .codeExpired && reason != .poison:
            return .code(work, .failed(at: now, isAnswerLost: false))
        case (.lostAnswerForgotten, .code(let work, .failed(let time, _, let detail))):
            return .code(work, .failed(at: time, isAnswerLost: false, detail: detail))
        case (.lostAnswerTakenForSignIn, .code(let work, .rejected(.answerLost, _))),
            (.lostAnswerTakenForSignIn, .code(let work, .late)) where work.mayBeUsed:
            guard let content = work.content, let userID = content.userID else { return settlement }
            let credential = CredentialID(clientID: content.clientID, userID: userID)
            return .code(work, .exchanged(Grant(grantedAt: work.grantedAt), credential, requestedAt: now, answeredAt: now))
        case (.deadTokenBelievedAtOnce, .revocation(let work, .unproven)):
            return .revocation(work, .admitted)
        case (.revocationBelievedUnseen, .revocation(var work, .answered(var answer, let identity, _))) where answer.word == .revoked:
            work.proof.revocation = answer
            answer.word = .rejected
            return .revocation(work, .answered(answer, by: identity))
        case (.revocationDatedByItsProof, .revocation(var work, let verdict)):
            work.requestedAt = now
            return .revocation(work, verdict)
        case (.requestDatedAheadTrusted, .revocationRequest(let work, .accepted)):
            return .revocationRequest(work, .accepted(at: work.requestedAt))
        case (.revocationGivenUp, .revocation(let work, .failed)):
            return .revocation(work, .poison)
        default:
            return settlement
        }
    }
}
