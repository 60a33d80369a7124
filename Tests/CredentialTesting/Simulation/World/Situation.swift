// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Situations that a run should meet now and then, because only tried cases count as proved.
package enum Situation: String, Sendable, CaseIterable, Hashable {
    case crash, crashWithRequestsOut, crashAfterCommit, crashAtStart, superseded, eventAwaitsGrant, rejectionAwaitsGrant, unknownSigningKey
    case duplicateNotification, staleNotification, duplicateGrant, staleGrant
    case held, admitted, admittedOnRepetition, misconfigured, throttled, unavailable
    case lostAcknowledgement, leaseLapsed, timeout, tokenReplacedInFlight, cameBack, releasedFromQuarantine, operatorPause, askedAgain
    case readFailed, claimFailed, claimLost
    case importedToken, neverAccepted, restore, clockStep, ended, grantFromFuture, forgettingHeld
    case codeExchanged, codeTaken, codeLate, codeUsed, codeRefused, answerLost, badIdentityToken, userMismatch, issuedForNobody
    case revocationProved, alreadyInvalid, overtaken, nothingToRevoke, revocationInVain, askedTwiceToRevoke, proofBegunAnew, foreignToken
    case retold, namelessAnswer, noValidToken
    case teamChanged, teamChangedInMidProof, otherTeam, tokenOfOtherTeamRejected
    case clientDropped, grantOfDroppedClient, eventOfDroppedClient
    case truncatedToken, misdatedSignIn, bulkDeletion, eventBeforeSignIn, clientRefused, freeze
    case requestHeld, heldConfirmed, heldDropped, requestRepeated
    case rejectionsConfirmed, droppedConfirmed
    case strayDate, signInBehindImport, clockStepWithSignInInHand
    case fileImported, importCutShort, importRepeated, importRefused
    case sealedAnew, sealedAnewBesideACommit, sealingKeyRetired
    case replicaLags, crashBeforeReload, crashInSweep, crashAfterRetire
    case decisionPlanted, revocationPlanted, breakerPlanted, limitReset, limitReplayed, usersPlanted
    case undoComplete, undoCutShort, undoRehearsed, undoTook, undoKept, undoWaits, undoShowedAnEnd
}
