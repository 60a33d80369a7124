// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A breaker and a clock. Answers come a second apart, each about another user of one client by default.
struct BreakerTrial {
    var breaker = RejectionBreaker()
    var rules = BreakerRules()
    var now = Timestamp(seconds: 1_700_000_000)
    var users = 0
    /// With no answer about a client.
    var admissions: [AdmissionRule] { breaker.admissions(with: ClientProofs(), under: rules, within: .days(1), at: now) }

    @discardableResult
    mutating func answer(
        _ finding: RejectionBreaker.Finding,
        _ user: String? = nil,
        client: String = "app",
        isCanary: Bool = false,
        isCheck: Bool = true,
        rejectedAt: Timestamp? = nil
    ) -> RejectionBreaker.Admission {
        now = now.advanced(by: .seconds(1))
        users += 1
        let credential = CredentialID(clientID: client, userID: user ?? "user\(users)")
        let subject = RejectionBreaker.Subject(credential, isCanary: isCanary, isCheck: isCheck, rejectedAt: rejectedAt)
        return breaker.judge(finding, of: subject, under: rules, at: now)
    }

    mutating func answer(_ finding: RejectionBreaker.Finding, times: Int) { for _ in 0..<times { answer(finding) } }

    /// Of a breaker that twenty-one rejections have opened.
    static func opened() -> BreakerTrial {
        var trial = BreakerTrial()
        trial.answer(.rejected, times: 21)
        return trial
    }
}
