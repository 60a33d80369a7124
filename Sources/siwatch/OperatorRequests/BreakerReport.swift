// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

struct BreakerReport: Encodable {
    var app: String
    var isOpen: Bool
    /// Nil while the breaker is closed, or if its state cannot be read.
    var openedAt: Timestamp?
    var causes: [RejectionBreaker.Cause]
    var blamedClients: [String]
    var rejectedCanaries: [CredentialID]
    /// The number of the last answers that were judged. `rejections` counts the rejections among them.
    var answers: Int
    var rejections: Int
    /// Answers since the rejections were out of proportion.
    var probes: Int
    var rejectedProbes: Int
    var confirmedAt: Timestamp?
    /// Until when the number of rejections opens nothing, because an operator has confirmed many.
    var mutedUntil: Timestamp?
    /// Rejections that wait until they are believed.
    var pending: Int

    private init(_ breaker: RejectionBreaker, of app: AppStatus) {
        self.app = app.app
        isOpen = breaker.isOpen
        openedAt = breaker == .unread ? nil : breaker.openedAt
        causes = breaker.causes
        blamedClients = breaker.blamedClients.sorted()
        rejectedCanaries = breaker.rejectedCanaries.sorted { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }
        (answers, rejections) = breaker.judged
        (probes, rejectedProbes) = breaker.probed
        (confirmedAt, mutedUntil) = (breaker.confirmedAt, breaker.mutedUntil)
        pending = app.pending
    }

    static func all(_ breakers: [String: RejectionBreaker], of apps: [AppStatus]) -> [BreakerReport] {
        apps.map { BreakerReport(breakers[$0.app] ?? RejectionBreaker(), of: $0) }
    }

    var text: String {
        guard let openedAt else {
            if isOpen { return "\(app.printable): open, because its state cannot be read: no rejection is believed" }
            let waiting = pending > 0 ? ", \(pending) rejections wait to be believed" : ""
            return "\(app.printable): closed, \(rejections) of the last \(answers) answers are rejections\(waiting)"
        }
        let reasons = causes.map { cause in
            switch cause {
            case .disproportion where answers == 0: "its state could not be read when siwatch started"
            case .disproportion:
                "\(rejections) of \(answers) answers were rejections; of \(probes) since then, \(rejectedProbes)"
            case .canary:
                "Apple rejected the canary \(rejectedCanaries.map { "\($0.userID.printable) at \($0.clientID.printable)" }.joined(separator: ", "))"
            case .blamedClient:
                "Apple blames the configuration of \(blamedClients.map(\.printable).joined(separator: ", "))"
            }
        }
        let effect =
            causes == [.blamedClient] ? "a client's rejections are believed once Apple accepts it again" : "no rejection is believed"
        return "\(app.printable): open since \(openedAt.text), \(effect): \(reasons.joined(separator: "; "))"
    }
}
